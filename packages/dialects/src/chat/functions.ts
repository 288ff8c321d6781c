/** The deprecated fields `functions` and `function_call` and messages of role `function`. */
import { fieldsOf, isFields, wrong, type Fields } from '../fields.ts'

/** Whether a body uses `functions`. Beside `tools` they are ignored. */
export const speaksOfFunctions = (body: Fields): boolean =>
  (body['functions'] ?? null) !== null && (body['tools'] ?? null) === null

/** The body as one of tools. Throws `bad_request`. */
export const withTools = (body: Fields): Fields => {
  const { functions, function_call: choice, ...rest } = body
  if (!Array.isArray(functions)) throw wrong('functions', 'a list of functions')
  const tools = functions.map((one: unknown, i) => {
    const named = fieldsOf(one, `functions[${i}]`)
    if (typeof named['name'] !== 'string') throw wrong(`functions[${i}].name`, 'the name of the function')
    return { type: 'function', function: named }
  })
  const called = isFields(choice) ? { type: 'function', function: { name: choice['name'] } } : choice
  return { ...rest, tools, ...((called ?? null) === null ? {} : { tool_choice: called }), parallel_tool_calls: false }
}

/** The calls of an answer that comes back; undefined where it has none. */
export const callsOf = (message: Fields): unknown => {
  const { tool_calls: calls, function_call: call } = message
  return (calls ?? null) === null && isFields(call) ? [{ type: 'function', function: call }] : calls
}
