/**
 * The grammar and machine of a constraint: optional reasoning, then JSON or tool calls, in the markup that
 * packages/dialects/src/markup parses.
 */
import { InstarError } from '@instar/events/errors'
import { Grammar, type Node } from './grammar.ts'
import { SchemaCompiler } from './json-schema.ts'
import { Machine } from './machine.ts'
import { isSchema } from './keywords.ts'
import { Budget } from './schema-errors.ts'
import { tag, upTo, words } from './terminal.ts'

/**
 * A constraint: the answer is JSON that matches a schema, or calls of these functions with arguments that match their
 * schemas; if both are set, either. `field`: the client's field with the schema. `maxCalls`: maximum number of calls.
 * `insideReasoning`: the prompt ends inside reasoning.
 */
export type Constraint = {
  json: { field: string; schema: unknown } | null
  calls: readonly { name: string; parameters: unknown }[]
  maxCalls: number
  insideReasoning: boolean
}

const MAX_SOURCE_CHARACTERS = 512 * 1024
const MAX_CALLS = 128
const MAX_DEPTH = 300

const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'

/** The cache key of a constraint. Throws `bad_request` if it is too large. */
export function keyOf(constraint: Constraint): string {
  const { json, calls } = constraint
  const field = json?.field ?? 'tools'
  if (calls.length > MAX_CALLS)
    throw new InstarError('bad_request', `tools: at most ${MAX_CALLS} tools are supported if a call is required.`, {
      field,
    })
  if (isDeep([json?.schema, calls]))
    throw new InstarError('bad_request', `${field}: the schema is nested more than ${MAX_DEPTH} levels deep.`, {
      field,
    })
  const key = JSON.stringify(constraint)
  if (key.length > MAX_SOURCE_CHARACTERS)
    throw new InstarError('bad_request', `${field}: the schema is larger than 512 KiB.`, { field })
  return key
}

/**
 * The machine of a constraint. `symbols`: the tokenizer's added tokens by text. Call `keyOf` first, which checks the
 * size. Throws `bad_request` with field and keyword.
 */
export function machineOf(constraint: Constraint, symbols: ReadonlyMap<string, number>): Machine {
  const { grammar, root } = grammarOf(constraint, symbols, symbols.has(THINK_OPEN), new Budget())
  return within(constraint.json?.field ?? 'tools', () => new Machine(grammar, root))
}

/**
 * The grammar of a constraint. `mayReason`: the answer may begin with reasoning. Requirements and errors of
 * `machineOf`.
 */
export function grammarOf(
  { json, calls, maxCalls, insideReasoning }: Constraint,
  symbols: ReadonlyMap<string, number>,
  mayReason: boolean,
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
      grammar.list({ first: [], rest: call, min: 1, max: maxCalls, separator: grammar.terminal(words(['\n'])) }),
    )
  }
  const answer = grammar.choice(answers)
  const root = withReasoning(grammar, answer, insideReasoning, mayReason, symbols)
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

/**
 * Reasoning is optional for models with a token for it. Reasoning that the prompt opened must be closed before the
 * answer.
 */
function withReasoning(
  grammar: Grammar,
  answer: Node,
  inside: boolean,
  mayReason: boolean,
  symbols: ReadonlyMap<string, number>,
): Node {
  const rest = (): Node =>
    grammar.sequence(grammar.terminal(upTo(THINK_CLOSE, symbols)), grammar.terminal(words(['', '\n', '\n\n'])), answer)
  if (inside) return rest()
  if (!mayReason) return answer
  return grammar.choice([answer, grammar.sequence(grammar.terminal(tag(THINK_OPEN, symbols)), rest())])
}

/** Runs `build` and adds the field to its errors. */
export function within<T>(field: string, build: () => T): T {
  try {
    return build()
  } catch (error) {
    if (error instanceof InstarError)
      throw new InstarError(error.code, `${field}: ${error.message}`, { ...error.details, field }, { cause: error })
    throw error
  }
}
