/** Which tools the answer must call. */
import { isFields, wrong, type Fields } from './fields.ts'

/**
 * `required`: the answer must call one of these tools; `all`: one of the offered tools; null: no call is required.
 * `one`: at most one call.
 */
export type ToolChoice = { required: ReadonlySet<string> | 'all' | null; one: boolean }

/** Parses `tool_choice` and `parallel_tool_calls` of Chat Completions and Responses. Throws `bad_request`. */
export const openaiToolChoice = (body: Fields): ToolChoice => {
  const choice = body['tool_choice']
  const kind = isFields(choice) ? choice['type'] : choice
  const one = body['parallel_tool_calls'] === false
  if (kind === 'required') return { required: 'all', one }
  if (kind === 'function' || kind === 'custom') return { required: new Set([nameOf(choice)]), one: true }
  if (kind === 'allowed_tools' && isFields(choice))
    return { required: allowedOf(isFields(choice['allowed_tools']) ? choice['allowed_tools'] : choice), one }
  return { required: null, one }
}

/**
 * The tool's name in the prompt, of `{type, name, namespace?}` or of the same fields inside `function` or `custom`.
 * Throws `bad_request`.
 */
export const nameOf = (choice: unknown): string => {
  const given = isFields(choice) ? choice : {}
  const inner = [given['function'], given['custom']].find(isFields) ?? given
  const { name, namespace } = inner
  if (typeof name !== 'string') throw wrong('tool_choice', 'a string, or an object with the name of a tool')
  return typeof namespace === 'string' ? `${namespace}__${name}` : name
}

const allowedOf = ({ mode, tools }: Fields): ReadonlySet<string> | null =>
  mode === 'required' && Array.isArray(tools) ? new Set(tools.map(nameOf)) : null
