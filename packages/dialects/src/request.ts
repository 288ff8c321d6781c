/**
 * The request type that all dialects are converted to, with messages and tools of Chat Completions, which chat
 * templates expect; and the parsing of JSON bodies.
 */
import { isAscii } from 'node:buffer'
import type { Reweighting } from '@instar/engine/port'
import { InstarError } from '@instar/events/errors'
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
  if (body.length > MAX_FIELDS_OF_ONE && isTooMany(countsOf(body))) {
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
const [QUOTE, BACKSLASH, COMMA, COLON, LIST, OBJECT, LIST_END, OBJECT_END] = [...'"\\,:[{]}'].map((sign) =>
  sign.charCodeAt(0),
) as [number, number, number, number, number, number, number, number]

/** `containers`: objects and lists. `widest`: the most fields of one object. `texts`: bytes of strings. */
type JsonCounts = { containers: number; values: number; fields: number; widest: number; texts: number }

/** Counts in the bytes, before the body is parsed. Stops at the first limit that is exceeded. */
const countsOf = (body: Uint8Array): JsonCounts => {
  const counts = { containers: 0, values: 0, fields: 0, widest: 0, texts: 0 }
  /** Fields so far of the objects and lists that are open, without the innermost one. */
  const outer: number[] = []
  let own = 0
  for (let at = 0; at < body.length && !isTooMany(counts); at += 1) {
    const sign = body[at]
    if (sign === QUOTE) {
      const end = endOfText(body, at)
      counts.texts += end - at
      at = end
    } else if (sign === COMMA) counts.values += 1
    else if (sign === COLON) {
      counts.fields += 1
      own += 1
      if (own > counts.widest) counts.widest = own
    } else if (sign === LIST || sign === OBJECT) {
      counts.containers += 1
      outer.push(own)
      own = 0
    } else if (sign === LIST_END || sign === OBJECT_END) own = outer.pop() ?? 0
  }
  return counts
}

const isTooMany = ({ containers, values, fields, widest }: JsonCounts): boolean =>
  containers > MAX_CONTAINERS || values > MAX_VALUES || fields > MAX_FIELDS || widest > MAX_FIELDS_OF_ONE

/** The most bytes that V8 uses for an object or list, a field of an object, and another value, without strings. */
const CONTAINER_BYTES = 100
const FIELD_BYTES = 80
const VALUE_BYTES = 32

/**
 * An upper estimate of the bytes of memory that the parsed body uses, besides the body itself. 0: `parseJson` throws.
 */
export const parsedBytes = (body: Uint8Array): number => {
  const counts = countsOf(body)
  if (isTooMany(counts)) return 0
  const { containers, values, fields, texts } = counts
  return CONTAINER_BYTES * containers + FIELD_BYTES * fields + VALUE_BYTES * values + texts * (isNarrow(body) ? 1 : 2)
}

/** Whether V8 stores every string of the body with one byte per character; otherwise it uses two. */
const isNarrow = (body: Uint8Array): boolean =>
  isAscii(body) && !Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes('\\u')

/** The offset of the quote that closes the string at `from`; the body's length if it is not closed. */
const endOfText = (body: Uint8Array, from: number): number => {
  for (let at = body.indexOf(QUOTE, from + 1); at >= 0; at = body.indexOf(QUOTE, at + 1)) {
    let before = at
    while (body[before - 1] === BACKSLASH) before -= 1
    if ((at - before) % 2 === 0) return at
  }
  return body.length
}

/** Levels of nesting. `JSON.stringify` fails on much deeper values; tools of agents have fewer than 50. */
const MAX_DEPTH = 500

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)))
