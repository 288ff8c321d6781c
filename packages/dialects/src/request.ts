/**
 * A request, whatever dialect it came in: messages and tools in the shape of Chat Completions, which chat
 * templates take. What a dialect says otherwise is brought into it by the dialect's own `request`.
 */
import { InstarError } from '@instar/events/errors'
import { fieldsOf, type Fields } from './fields.ts'

export type Message = {
  role: string
  content: unknown
  /** Ids of ours that came back with it, besides those of tool calls. */
  minted?: readonly string[]
  [key: string]: unknown
}

/** How a tool of this name is called in the client's dialect. */
export type ToolShape = { name: string; namespace: string | null; kind: 'function' | 'custom' }

/** As packages/policy/src/port.ts has it. */
export type Reweighting = { frequencyPenalty: number; presencePenalty: number; repetitionPenalty: number; minP: number; logitBias: readonly (readonly [id: number, bias: number])[] }

export type Request = {
  model: string | null
  messages: Message[]
  tools: readonly unknown[]
  /** The tools whose calls are not plain functions of their own name, by the name that the model knows. */
  shapes: ReadonlyMap<string, ToolShape>
  /** Its client offers `functions`, as before there were tools: it knows one call of an answer, under its old name. */
  functions: boolean
  /** Names of functions whose arguments have to be of their schema, where the dialect says so beside what templates are given. */
  strict: ReadonlySet<string>
  /** Tools that run at somebody else's, and are not offered here. */
  dropped: readonly string[]
  /** False: markup of calls stays text. */
  mayCall: boolean
  stream: boolean
  includeUsage: boolean
  n: number
  /** Null: the model's default. */
  temperature: number | null
  topP: number | null
  topK: number | null
  seed: number | null
  maxTokens: number | null
  stop: string[]
  /** Null: it is drawn from the policy's own distribution. */
  reweighting: Reweighting | null
  logprobs: boolean
  topLogprobs: number
  /** Whoever the client says is behind the request. */
  user: string | null
  /** Fields that ask for something which nobody does here. */
  ignored: readonly string[]
  /** As it was sent, references of ours resolved. */
  body: Fields
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** JSON of a body. Throws `bad_request`; the parser's message is not repeated, it quotes the body. */
export const parseJson = (body: Uint8Array): Fields => {
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(body))
  } catch (cause) {
    throw new InstarError('bad_request', body.length === 0 ? 'The request has no body; send JSON.' : 'The request body is not valid JSON in UTF-8.', {}, { cause })
  }
  if (isDeeper(value, DEEPEST)) throw new InstarError('bad_request', `The request nests more than ${DEEPEST} levels deep.`)
  return fieldsOf(value, 'The request body')
}

/** What is nested further can be parsed, but not be written again. Tools of agents stay below 50. */
const DEEPEST = 500

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)))
