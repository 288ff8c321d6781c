/** What an answer must be, as a machine that follows it: thoughts, then JSON or tool calls, as packages/policy/src/chat/answer.ts reads them. */
import { InstarError } from '@instar/events/errors'
import type { Constraint } from '../port.ts'
import { Grammar, type Node } from './grammar.ts'
import { SchemaCompiler } from './json-schema.ts'
import { Machine } from './machine.ts'
import { isSchema } from './keywords.ts'
import { tag, upTo, words } from './terminal.ts'

const MAX_SOURCE = 512 * 1024
const MAX_CALLS = 128

const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'

/** `symbols`: the tokenizer's added tokens by their text. Throws `bad_request` naming the field and the keyword. */
export function machineOf(constraint: Constraint, symbols: ReadonlyMap<string, number>): Machine {
  const { json, calls, mostCalls, insideReasoning } = constraint
  if (calls.length > MAX_CALLS) throw new InstarError('bad_request', `tools: at most ${MAX_CALLS} may be chosen from where one must be called.`, { field: 'tools' })
  if (JSON.stringify([json?.schema, calls]).length > MAX_SOURCE) throw new InstarError('bad_request', 'The schemas that the answer must follow are larger than 512 KiB.', { field: json ? 'response_format' : 'tools' })
  const grammar = new Grammar()
  const answers: Node[] = []
  if (json) answers.push(within(json.field, () => new SchemaCompiler(grammar, json.schema, false).compile()))
  if (calls.length > 0) {
    const call = grammar.choice(calls.map(({ name, parameters }) => within(`tools (${name.slice(0, 64)})`, () => callOf(grammar, name, parameters, symbols))))
    answers.push(grammar.list({ first: [], rest: call, min: 1, max: mostCalls, separator: grammar.terminal(words(['\n'])) }))
  }
  const answer = grammar.choice(answers)
  const root = thought(grammar, answer, insideReasoning, symbols)
  grammar.settle()
  return within(json?.field ?? 'tools', () => new Machine(grammar, root))
}

function callOf(grammar: Grammar, name: string, parameters: unknown, symbols: ReadonlyMap<string, number>): Node {
  const before = `\n{"name": ${JSON.stringify(name).replaceAll('</', '<\\/')}, "arguments": `
  const schema = isSchema(parameters) ? { ...parameters, type: 'object' } : { type: 'object' }
  return grammar.sequence(
    grammar.terminal(tag(CALL_OPEN, symbols)), grammar.terminal(words([before])),
    new SchemaCompiler(grammar, schema, true).compile(),
    grammar.terminal(words(['}\n'])), grammar.terminal(tag(CALL_CLOSE, symbols)),
  )
}

/** Models whose tokenizer has a token for it may think first; where the prompt opened a thought, it is closed first. */
function thought(grammar: Grammar, answer: Node, inside: boolean, symbols: ReadonlyMap<string, number>): Node {
  const rest = (): Node => grammar.sequence(grammar.terminal(upTo(THINK_CLOSE, symbols)), grammar.terminal(words(['', '\n', '\n\n'])), answer)
  if (inside) return rest()
  if (!symbols.has(THINK_OPEN)) return answer
  return grammar.choice([answer, grammar.sequence(grammar.terminal(tag(THINK_OPEN, symbols)), rest())])
}

function within<T>(field: string, build: () => T): T {
  try {
    return build()
  } catch (error) {
    if (error instanceof InstarError) throw new InstarError(error.code, `${field}: ${error.message}`, { ...error.details, field }, { cause: error })
    throw error
  }
}
