/** From a `Constraint` to a grammar and its machine: reasoning, then JSON or tool calls, as packages/dialects/src/markup reads them. */
import { InstarError } from '@instar/events/errors'
import { Grammar, type Node } from './grammar.ts'
import { SchemaCompiler } from './json-schema.ts'
import { Machine } from './machine.ts'
import { isSchema } from './keywords.ts'
import { Budget } from './refusal.ts'
import { tag, upTo, words } from './terminal.ts'

/**
 * The answer is JSON of a schema, or calls of these functions with arguments of their schemas; if both are given, either.
 * `field`: the client's field with the schema. `insideReasoning`: the prompt ends inside reasoning.
 */
export type Constraint = {
  json: { field: string; schema: unknown } | null
  calls: readonly { name: string; parameters: unknown }[]
  mostCalls: number
  insideReasoning: boolean
}

const MAX_SOURCE = 512 * 1024
const MAX_CALLS = 128
const MAX_DEPTH = 300

const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'

/** Cache key of a constraint. Throws `bad_request` for one that is too large. */
export function keyOf(constraint: Constraint): string {
  const { json, calls } = constraint
  const field = json?.field ?? 'tools'
  if (calls.length > MAX_CALLS)
    throw new InstarError('bad_request', `tools: at most ${MAX_CALLS} may be chosen from where one must be called.`, {
      field,
    })
  if (isDeep([json?.schema, calls]))
    throw new InstarError('bad_request', `${field}: the schema is nested more than ${MAX_DEPTH} deep.`, { field })
  const key = JSON.stringify(constraint)
  if (key.length > MAX_SOURCE)
    throw new InstarError('bad_request', `${field}: the schema is larger than 512 KiB.`, { field })
  return key
}

/** `symbols`: the tokenizer's added tokens by text. Call `keyOf` first, which checks the size. Throws `bad_request` naming field and keyword. */
export function machineOf(constraint: Constraint, symbols: ReadonlyMap<string, number>): Machine {
  const { grammar, root } = grammarOf(constraint, symbols, symbols.has(THINK_OPEN), new Budget())
  return within(constraint.json?.field ?? 'tools', () => new Machine(grammar, root))
}

/** `thinks`: the answer may begin with reasoning. Preconditions and errors as for `machineOf`. */
export function grammarOf(
  { json, calls, mostCalls, insideReasoning }: Constraint,
  symbols: ReadonlyMap<string, number>,
  thinks: boolean,
  budget: Budget,
): { grammar: Grammar; root: Node } {
  const grammar = new Grammar()
  const answers: Node[] = []
  if (json) answers.push(within(json.field, () => new SchemaCompiler(grammar, json.schema, false, budget).compile()))
  if (calls.length > 0) {
    const call = grammar.choice(
      calls.map(({ name, parameters }) =>
        within(`tools (${name.slice(0, 64)})`, () => callOf(grammar, name, parameters, symbols, budget)),
      ),
    )
    answers.push(
      grammar.list({ first: [], rest: call, min: 1, max: mostCalls, separator: grammar.terminal(words(['\n'])) }),
    )
  }
  const answer = grammar.choice(answers)
  const root = thought(grammar, answer, insideReasoning, thinks, symbols)
  grammar.markProductive()
  return { grammar, root }
}

/** Iterative, since the value may be too deep for the stack. */
function isDeep(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return true
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []))
  }
  return false
}

function callOf(
  grammar: Grammar,
  name: string,
  parameters: unknown,
  symbols: ReadonlyMap<string, number>,
  budget: Budget,
): Node {
  const before = `\n{"name": ${JSON.stringify(name).replaceAll('</', '<\\/')}, "arguments": `
  const schema = isSchema(parameters) ? { ...parameters, type: 'object' } : { type: 'object' }
  return grammar.sequence(
    grammar.terminal(tag(CALL_OPEN, symbols)),
    grammar.terminal(words([before])),
    new SchemaCompiler(grammar, schema, true, budget).compile(),
    grammar.terminal(words(['}\n'])),
    grammar.terminal(tag(CALL_CLOSE, symbols)),
  )
}

/** Reasoning is optional for models with a token for it; reasoning that the prompt opened is closed first. */
function thought(
  grammar: Grammar,
  answer: Node,
  inside: boolean,
  thinks: boolean,
  symbols: ReadonlyMap<string, number>,
): Node {
  const rest = (): Node =>
    grammar.sequence(grammar.terminal(upTo(THINK_CLOSE, symbols)), grammar.terminal(words(['', '\n', '\n\n'])), answer)
  if (inside) return rest()
  if (!thinks) return answer
  return grammar.choice([answer, grammar.sequence(grammar.terminal(tag(THINK_OPEN, symbols)), rest())])
}

/** Runs `build`; its errors name the field. */
export function within<T>(field: string, build: () => T): T {
  try {
    return build()
  } catch (error) {
    if (error instanceof InstarError)
      throw new InstarError(error.code, `${field}: ${error.message}`, { ...error.details, field }, { cause: error })
    throw error
  }
}
