/** Derives the constraint of an answer from a request: JSON of a schema, or a tool call. */
import type { Constraint } from '@instar/engine/port'
import { InstarError } from '@instar/events'
import { ANY_OBJECT, isFields, jsonFormat, type Dialect, type Request } from '@instar/dialects'

type Tool = { name: string; parameters: unknown; strict: boolean }

/** Maximum number of tool calls in one answer, where more than one is allowed. */
const MAX_CALLS = 16

/** Null: the answer is not constrained. Throws `bad_request`. */
export const constraintOf = (
  dialect: Dialect,
  request: Pick<Request, 'body' | 'tools' | 'mayCall' | 'shapes' | 'strict'>,
  insideReasoning: boolean,
): Constraint | null => {
  const { body, mayCall } = request
  const tools = toolsOf(request)
  const { required, one } = dialect.toolChoice(body)
  const maxCalls = one ? 1 : MAX_CALLS
  if (required !== null) {
    const calls = tools
      .filter(({ name }) => required === 'all' || required.has(name))
      .map(({ name, parameters }) => ({ name, parameters }))
    if (calls.length === 0)
      throw new InstarError('bad_request', 'tool_choice asks for a call of a tool that tools does not offer.', {
        field: 'tool_choice',
      })
    return { json: null, calls, maxCalls, insideReasoning }
  }
  const json = jsonFormat(dialect.answerFormat(body))
  if (!json) return null
  // Where calls are optional, only a strict tool's arguments are constrained to its schema.
  return {
    json,
    calls: mayCall
      ? tools.map(({ name, parameters, strict }) => ({ name, parameters: strict ? parameters : ANY_OBJECT }))
      : [],
    maxCalls,
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
