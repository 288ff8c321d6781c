/**
 * A request, whatever dialect it came in: messages and tools in the shape of Chat Completions, which chat
 * templates take. What a dialect says otherwise is brought into it by the dialect's own `request`.
 */
import { isAscii } from 'node:buffer'
import type { Reweighting } from '@instar/engine/port'
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

export type Request = {
  model: string | null
  messages: Message[]
  tools: readonly unknown[]
  /** The tools whose calls are not plain functions of their own name, by the name that the model knows. */
  shapes: ReadonlyMap<string, ToolShape>
  /** Its client offers `functions`, as before there were tools: it knows one call of an answer, under its old name. */
  functions: boolean
  /**
   * Names of functions whose arguments have to be of their schema, where the dialect says so beside what templates are
   * given.
   */
  strict: ReadonlySet<string>
  /** Tools that a third party's server would run; they are not offered to the model. */
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
  /** The user that the client names. */
  user: string | null
  /** Fields with unsupported options. */
  ignored: readonly string[]
  /** As it was sent, references of ours resolved. */
  body: Fields
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** JSON of a body. Throws `bad_request`; the parser's message is not repeated, it quotes the body. */
export const parseJson = (body: Uint8Array): Fields => {
  if (body.length > MOST_PARTS && isTooMany(countsOf(body))) {
    throw new InstarError(
      'bad_request',
      `The request body has more than ${MOST_PARTS} objects and lists, or ${MOST_VALUES} values.`,
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
  if (isDeeper(value, DEEPEST))
    throw new InstarError('bad_request', `The request nests more than ${DEEPEST} levels deep.`)
  return fieldsOf(value, 'The request body')
}

/** Each takes many times the memory of its two bytes. A conversation of a thousand messages has some ten thousand. */
const MOST_PARTS = 100_000
/** Ids of tokens, for the most part. */
const MOST_VALUES = 4_000_000
const [QUOTE, BACKSLASH, COMMA, COLON, LIST, OBJECT] = [...'"\\,:[{'].map((sign) => sign.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
  number,
  number,
]

/** `texts`: bytes of them in the body. */
type Counts = { parts: number; values: number; fields: number; texts: number }

/** Counted in the bytes, before anything is made of them; not to the end where there are too many. */
const countsOf = (body: Uint8Array): Counts => {
  const counts = { parts: 0, values: 0, fields: 0, texts: 0 }
  for (let at = 0; at < body.length && !isTooMany(counts); at += 1) {
    const sign = body[at]
    if (sign === QUOTE) {
      const end = endOfText(body, at)
      counts.texts += end - at
      at = end
    } else if (sign === COMMA) counts.values += 1
    else if (sign === COLON) counts.fields += 1
    else if (sign === LIST || sign === OBJECT) counts.parts += 1
  }
  return counts
}

const isTooMany = ({ parts, values }: Counts): boolean => parts > MOST_PARTS || values > MOST_VALUES

/**
 * Bytes that V8 takes at the most for an object or a list, for a field of an object and for another value, without
 * their texts.
 */
const PART_BYTES = 100
const FIELD_BYTES = 80
const VALUE_BYTES = 32

/**
 * Bytes of memory that a body's JSON takes when it is parsed, at the most, beside the body itself. 0: it will be
 * refused.
 */
export const parsedBytes = (body: Uint8Array): number => {
  const counts = countsOf(body)
  if (isTooMany(counts)) return 0
  const { parts, values, fields, texts } = counts
  return PART_BYTES * parts + FIELD_BYTES * fields + VALUE_BYTES * values + texts * (isNarrow(body) ? 1 : 2)
}

/** Whether V8 holds each text with one byte to a character; with another character in it a text takes two to each. */
const isNarrow = (body: Uint8Array): boolean =>
  isAscii(body) && !Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes('\\u')

/** Where the text that begins at `from` is closed; behind the body where it is not. */
const endOfText = (body: Uint8Array, from: number): number => {
  for (let at = body.indexOf(QUOTE, from + 1); at >= 0; at = body.indexOf(QUOTE, at + 1)) {
    let before = at
    while (body[before - 1] === BACKSLASH) before -= 1
    if ((at - before) % 2 === 0) return at
  }
  return body.length
}

/** Deeper JSON can be parsed but not serialized again. Tools of agents stay below 50 levels. */
const DEEPEST = 500

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)))
