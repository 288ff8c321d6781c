/**
 * The request type that all dialects are converted to, with messages and tools of Chat Completions, which chat
 * templates expect; and the parsing of JSON bodies.
 */
import type { Reweighting } from '@instar/engine/port'
import { InstarError } from '@instar/events/errors'
import { jsonBytes } from '@instar/events/json-size'
import { fieldsOf, type Fields } from './fields.ts'

export type Message = {
  role: string
  content: unknown
  /** The minted ids of this message, besides those of its tool calls. */
  minted?: readonly string[]
  [key: string]: unknown
}

/** The name, namespace and kind of a tool in the client's request. */
export type ToolShape = { name: string; namespace: string | null; kind: 'function' | 'custom' }

export type Request = {
  model: string | null
  messages: Message[]
  tools: readonly unknown[]
  /** Custom tools and tools of a namespace, by the name that the model knows. */
  shapes: ReadonlyMap<string, ToolShape>
  /** The request uses the deprecated `functions`: its client expects at most one call, in `function_call`. */
  functions: boolean
  /** Names of functions whose arguments must match their schema, if `tools` (as templates get them) does not say so. */
  strict: ReadonlySet<string>
  /** Names of hosted tools, which the API's provider would execute. They are not offered to the model. */
  dropped: readonly string[]
  /** False: markup of tool calls is content. */
  mayCall: boolean
  stream: boolean
  includeUsage: boolean
  /** Number of candidates. */
  n: number
  /** Null: the model's default. */
  temperature: number | null
  topP: number | null
  topK: number | null
  seed: number | null
  maxTokens: number | null
  stop: string[]
  /** Null: tokens are sampled from the policy's own distribution. */
  reweighting: Reweighting | null
  logprobs: boolean
  topLogprobs: number
  /** The end user that the client names. */
  user: string | null
  /** Names of fields that are set and not supported. */
  ignored: readonly string[]
  /** The body as it was received, with references resolved. */
  body: Fields
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Parses a body. Throws `bad_request`, without the parser's message, since it quotes the body. */
export const parseJson = (body: Uint8Array): Fields => {
  if (body.length > MAX_FIELDS_OF_ONE && jsonBytes(body, LIMITS) === null) {
    throw new InstarError(
      'bad_request',
      `The request body has more than ${MAX_CONTAINERS} objects and lists, ${MAX_VALUES} values, ${MAX_FIELDS} fields of objects or ${MAX_FIELDS_OF_ONE} of one.`,
    )
  }
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(body))
  } catch (cause) {
    throw new InstarError(
      'bad_request',
      body.length === 0 ? 'The request has no body; send JSON.' : 'The request body is not valid JSON in UTF-8.',
      {},
      { cause },
    )
  }
  if (isDeeper(value, MAX_DEPTH))
    throw new InstarError('bad_request', `The request body is nested more than ${MAX_DEPTH} levels deep.`)
  return fieldsOf(value, 'The request body')
}

/**
 * Maximum number of objects and lists, each of which takes up to 100 bytes of memory for two of the body. A
 * conversation of a thousand messages has about ten thousand.
 */
const MAX_CONTAINERS = 100_000
/** Maximum number of values, so that lists of token ids fit. */
const MAX_VALUES = 4_000_000
/**
 * Maximum number of fields of all objects, and of one. V8 takes microseconds for each of an object of many names, and
 * as many again whenever the object is copied.
 */
const MAX_FIELDS = 400_000
const MAX_FIELDS_OF_ONE = 20_000
const LIMITS = { containers: MAX_CONTAINERS, values: MAX_VALUES, fields: MAX_FIELDS, widest: MAX_FIELDS_OF_ONE }

/**
 * An upper estimate of the bytes of memory that the parsed body uses, besides the body itself. 0: `parseJson` throws.
 */
export const parsedBytes = (body: Uint8Array): number => jsonBytes(body, LIMITS) ?? 0

/** Levels of nesting. `JSON.stringify` fails on much deeper values; tools of agents have fewer than 50. */
const MAX_DEPTH = 500

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)))
