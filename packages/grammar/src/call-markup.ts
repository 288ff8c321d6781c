/**
 * A tool call in the markup of the embedded models. JSON arguments are not changed; other text becomes a JSON string.
 */
export const callMarkup = (call: { name: string; arguments: string }): string =>
  `<tool_call>\n{"name": ${JSON.stringify(call.name)}, "arguments": ${isJson(call.arguments) ? call.arguments : JSON.stringify(call.arguments)}}\n</tool_call>`

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}
