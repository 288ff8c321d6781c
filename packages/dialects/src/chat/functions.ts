/** Conversion of the deprecated fields `functions` and `function_call` to `tools` and `tool_calls`. */
import { fieldsOf, isFields, wrong, type Fields } from '../fields.ts'

/** Whether the body offers `functions`, which are ignored if it also has `tools`. */
export const usesFunctions = (body: Fields): boolean =>
  (body['functions'] ?? null) !== null && (body['tools'] ?? null) === null

/** The body with `functions` and `function_call` replaced by `tools` and `tool_choice`. Throws `bad_request`. */
export const withTools = (body: Fields): Fields => {
  const { functions, function_call: choice, ...rest } = body
  if (!Array.isArray(functions)) throw wrong('functions', 'a list of functions')
  const tools = functions.map((value: unknown, i) => {
    const definition = fieldsOf(value, `functions[${i}]`)
    if (typeof definition['name'] !== 'string') throw wrong(`functions[${i}].name`, 'the name of the function')
    return { type: 'function', function: definition }
  })
  const toolChoice = isFields(choice) ? { type: 'function', function: { name: choice['name'] } } : choice
  return {
    ...rest,
    tools,
    ...((toolChoice ?? null) === null ? {} : { tool_choice: toolChoice }),
    parallel_tool_calls: false,
  }
}

/** The tool calls of an assistant message, `function_call` included; undefined if it has none. */
export const callsOf = (message: Fields): unknown => {
  const { tool_calls: calls, function_call: call } = message
  return (calls ?? null) === null && isFields(call) ? [{ type: 'function', function: call }] : calls
}
