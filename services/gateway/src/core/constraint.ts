/** What a request says its answer must be: JSON of a schema, or a call of a tool. */
import type { Constraint } from '@instar/engine/port'
import { InstarError } from '@instar/events'
import { isFields, wrong, type Fields, type Request } from '@instar/dialects'

type Tool = { name: string; parameters: unknown; strict: boolean }
/** `names`: of which tools one must be called; null: none must. */
type Choice = { names: ReadonlySet<string> | null; one: boolean }

/** In one answer, where more than one is allowed. */
const MOST_CALLS = 16
const ANY_OBJECT = { type: 'object' }

/** Null: the answer is whatever the model says. Throws `bad_request`. */
export const constraintOf = (
  dialect: string,
  request: Pick<Request, 'body' | 'tools' | 'mayCall' | 'shapes' | 'strict'>,
  insideReasoning: boolean,
): Constraint | null => {
  const { body, mayCall } = request
  const tools = toolsOf(request)
  const choice = choiceOf(dialect, body, tools)
  const mostCalls = choice.one ? 1 : MOST_CALLS
  if (choice.names) {
    const calls = tools
      .filter(({ name }) => choice.names?.has(name))
      .map(({ name, parameters }) => ({ name, parameters }))
    if (calls.length === 0)
      throw new InstarError('bad_request', 'tool_choice asks for a call of a tool that tools does not offer.', {
        field: 'tool_choice',
      })
    return { json: null, calls, mostCalls, insideReasoning }
  }
  const json = formatOf(dialect, body)
  if (!json) return null
  // Where it is free to call, arguments are held to their schema only if the tool says so.
  return {
    json,
    calls: mayCall
      ? tools.map(({ name, parameters, strict }) => ({ name, parameters: strict ? parameters : ANY_OBJECT }))
      : [],
    mostCalls,
    insideReasoning,
  }
}

const toolsOf = ({ tools, strict }: Pick<Request, 'tools' | 'strict'>): Tool[] =>
  tools.flatMap((tool) => {
    const given = isFields(tool) && isFields(tool['function']) ? tool['function'] : null
    return given && typeof given['name'] === 'string'
      ? [
          {
            name: given['name'],
            parameters: given['parameters'],
            strict: given['strict'] === true || strict.has(given['name']),
          },
        ]
      : []
  })

const isOff = (value: unknown): boolean => value === false

const choiceOf = (dialect: string, body: Fields, tools: readonly Tool[]): Choice => {
  const choice = body['tool_choice']
  const all = new Set(tools.map(({ name }) => name))
  const kind = isFields(choice) ? choice['type'] : choice
  if (dialect === 'messages') {
    const one = isFields(choice) && choice['disable_parallel_tool_use'] === true
    if (kind === 'any') return { names: all, one }
    return { names: kind === 'tool' ? new Set([nameOf(choice)]) : null, one: one || kind === 'tool' }
  }
  const one = isOff(body['parallel_tool_calls'])
  if (kind === 'required') return { names: all, one }
  if (kind === 'function' || kind === 'custom') return { names: new Set([nameOf(choice)]), one: true }
  if (kind === 'allowed_tools' && isFields(choice))
    return { names: allowedOf(isFields(choice['allowed_tools']) ? choice['allowed_tools'] : choice), one }
  return { names: null, one }
}

/** `{type, name}`, with `namespace`, or as Chat Completions has it inside of `function` or `custom`. */
const nameOf = (choice: unknown): string => {
  const given = isFields(choice) ? choice : {}
  const inner = [given['function'], given['custom']].find(isFields) ?? given
  const { name, namespace } = inner
  if (typeof name !== 'string') throw wrong('tool_choice', 'a word, or name a tool')
  return typeof namespace === 'string' ? `${namespace}__${name}` : name
}

const allowedOf = ({ mode, tools }: Fields): ReadonlySet<string> | null =>
  mode === 'required' && Array.isArray(tools) ? new Set(tools.map(nameOf)) : null

/** What a body says of its answer's form, in the dialect's own words; null: nothing. */
export const formatIn = (dialect: string, body: Fields): { format: unknown; field: string } => {
  if (dialect === 'chat') return { format: body['response_format'] ?? null, field: 'response_format' }
  if (dialect === 'responses')
    return { format: (isFields(body['text']) ? body['text']['format'] : null) ?? null, field: 'text.format' }
  const config = (isFields(body['output_config']) ? body['output_config']['format'] : null) ?? null
  return config === null
    ? { format: body['output_format'] ?? null, field: 'output_format' }
    : { format: config, field: 'output_config.format' }
}

/** Throws `bad_request` where it is no format. */
export const formatOf = (dialect: string, body: Fields): Constraint['json'] => {
  const { format, field } = formatIn(dialect, body)
  return jsonOf(format, field, dialect === 'chat' ? 'json_schema' : null)
}

/** `inner`: the field of the format that holds the schema's own fields. */
const jsonOf = (format: unknown, field: string, inner: string | null): Constraint['json'] => {
  if (format === undefined || format === null) return null
  const type = isFields(format) ? format['type'] : null
  if (!isFields(format) || typeof type !== 'string') throw wrong(field, 'an object with a type')
  if (type === 'text') return null
  if (type === 'json_object') return { field, schema: ANY_OBJECT }
  if (type !== 'json_schema') throw wrong(`${field}.type`, 'text, json_object or json_schema')
  const holder = inner === null ? format : format[inner]
  const schema = isFields(holder) ? holder['schema'] : null
  if (!isFields(schema)) throw wrong(`${field}.${inner === null ? '' : `${inner}.`}schema`, 'a JSON Schema')
  return { field, schema }
}
