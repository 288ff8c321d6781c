/**
 * What somebody else recorded of one request and the answers to it, whatever the record looked like: a line of a
 * log, a message of a conversation, a step of a trajectory. turns.ts makes our records of it.
 */
import type { Headers } from '@instar/agents'
import {
  fieldsOf,
  isFields,
  number,
  text,
  wrong,
  type Call,
  type Fields,
  type Finish,
  type Request,
} from '@instar/dialects'
import type { Dialect, LabelSource, RecordedSampling, TurnKind } from '@instar/events'
import { callMarkup } from '@instar/grammar'

/** The version that is said to have spoken. `ours`: the number is one of this line's, not of some other trainer's. */
export type Claim = {
  version: number
  ours: boolean
  /** sha256 of its weights, null for the base; absent where nothing is said of it. */ adapter?: string | null
}

/** −1…1. `id`, `at`: of the record that it was before, where it was one. */
export type Reward = { id: string | null; value: number; comment: string | null; at: number | null }

export type Said = {
  /** The id that it had as a turn of ours; null: it gets one from its content. */
  turn: string | null
  candidate: number
  content: string
  reasoning: string
  calls: Call[]
  callIds: string[]
  /** As it was sampled, markup in; null: composed of the three above, or decoded from `ids`. */
  raw: string | null
  finish: Finish
  ids: readonly number[] | null
  logprobs: readonly number[] | null
  rewards: Reward[]
}

export type Times = { at: number | null; firstTokenAt: number | null; finishedAt: number | null }

export type Spoken = {
  session: string
  labelSource: LabelSource
  /** As another log of ours had it; else the headers may say. */
  userTurn: string | null
  dialect: Dialect
  request: Request
  raw: Uint8Array
  headers: Headers
  answers: readonly Said[]
  /** How many candidates the request had, of which some may not be told of. */
  candidates: number
  promptIds: readonly number[] | null
  claim: Claim | null
  sampling: RecordedSampling
  times: Times
  user: string | null
  /** As another log of ours had it. */
  subject: string | null
  kind: TurnKind | null
  optedOut: boolean
  /** What the ids of its turns are made of, besides the session and the candidate. */
  identity: string
  /** Shared by candidates that several records tell of; null: those of this one. */
  group: string | null
  engine: string
  /** This gateway drew these very tokens. */
  sampledHere?: boolean
  /** Whoever recorded it says that nothing follows. */
  last: boolean
}

/** How a record is read. */
export type Reading = {
  policy: string
  /** Public id of the API key whose sessions these are; null: nobody's. */
  key: string | null
  /** Version numbers of foreign records are this line's. */
  ownVersions: boolean
  /**
   * What is exact may be learned from although nobody saw our engine draw it. Log-probs prove nothing: whoever has the
   * weights computes them for an answer of their own.
   */
  unsampled: boolean
  /** The numbers that become −1 and 1; null: rewards are −1…1 already. */
  rewards: { from: number; to: number } | null
  /** Text of ids without control tokens, `` for a control token; null: no tokenizer at hand. */
  decode: ((ids: readonly number[]) => string) | null
}

/** true, false, a number in the range that was named, or null. Throws `bad_request`. */
export const rewardOf = (value: unknown, where: string, { rewards }: Pick<Reading, 'rewards'>): number | null => {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : -1
  const { from, to } = rewards ?? { from: -1, to: 1 }
  if (typeof value !== 'number' || !(value >= Math.min(from, to) && value <= Math.max(from, to)))
    throw wrong(where, `true, false or a number from ${from} to ${to}`)
  return rewards === null ? value : (2 * (value - from)) / (to - from) - 1
}

/** Seconds or milliseconds since 1970, or a date as ISO 8601 writes it, as milliseconds. */
export const timeOf = (value: unknown, where: string): number | null => {
  if (value === undefined || value === null) return null
  const ms =
    typeof value === 'string'
      ? Date.parse(value)
      : typeof value === 'number'
        ? value < 1e11
          ? value * 1000
          : value
        : Number.NaN
  if (!(ms >= 0 && ms < 1e14))
    throw wrong(where, 'a time: seconds or milliseconds since 1970, or a date as ISO 8601 writes it')
  return Math.round(ms)
}

/** The first of these fields that is there. */
export const firstOf = (fields: Fields, names: readonly string[]): { name: string; value: unknown } | null => {
  const name = names.find((one) => fields[one] !== undefined && fields[one] !== null)
  return name === undefined ? null : { name, value: fields[name] }
}

export const timesOf = (fields: Fields, fallback: unknown = null): Times => {
  const of = (names: readonly string[]): number | null => {
    const found = firstOf(fields, names)
    return found && timeOf(found.value, found.name)
  }
  return {
    at: of(['started_at', 'timestamp', 'created_at', 'time', 'created']) ?? timeOf(fallback, 'created'),
    firstTokenAt: of(['first_token_at']),
    finishedAt: of(['finished_at', 'ended_at']),
  }
}

/** Whole numbers of at least 0. Throws `bad_request`. */
export const idsOf = (value: unknown, where: string): number[] | null => {
  if (value === undefined || value === null) return null
  if (!Array.isArray(value) || !value.every((id) => Number.isSafeInteger(id) && (id as number) >= 0))
    throw wrong(where, 'a list of token ids')
  return value as number[]
}

export const numbersOf = (value: unknown, where: string): number[] | null => {
  if (value === undefined || value === null) return null
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'number')) throw wrong(where, 'a list of numbers')
  return value as number[]
}

/** The fields of the request, and of a `sampling` beside it, which say more where our own log wrote them. */
export const samplingOf = (request: Request, beside: unknown): RecordedSampling => {
  const own = isFields(beside) ? beside : {}
  return {
    temperature: number(own, 'temperature', 0, 2) ?? request.temperature ?? 1,
    topP: number(own, 'topP', 0, 1) ?? request.topP ?? 1,
    topK: Math.min(2 ** 31 - 1, Math.max(0, number(own, 'topK', -1, 2 ** 31 - 1) ?? request.topK ?? 0)),
    seed: number(own, 'seed', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER) ?? request.seed ?? 0,
    maxTokens: Math.min(2 ** 31 - 1, number(own, 'maxTokens', 0, 2 ** 31 - 1) ?? request.maxTokens ?? 0),
    stop: request.stop,
  }
}

/** An assistant message in the shape of Chat Completions. Throws `bad_request`. */
export const saidOf = (message: Fields, where: string): Pick<Said, 'content' | 'reasoning' | 'calls' | 'callIds'> => {
  const { content } = message
  if (content !== undefined && content !== null && typeof content !== 'string' && !Array.isArray(content))
    throw wrong(`${where}.content`, 'a text or a list of parts')
  const parts: unknown[] = Array.isArray(content) ? content : []
  const calls = (Array.isArray(message['tool_calls']) ? message['tool_calls'] : []).map((call: unknown, i) => {
    const fields = fieldsOf(call, `${where}.tool_calls[${i}]`)
    const called = fieldsOf(fields['function'], `${where}.tool_calls[${i}].function`)
    const name = text(called, 'name')
    if (name === null) throw wrong(`${where}.tool_calls[${i}].function.name`, 'a name')
    const given: unknown = called['arguments'] ?? {}
    return { id: text(fields, 'id') ?? '', name, arguments: typeof given === 'string' ? given : JSON.stringify(given) }
  })
  return {
    content:
      typeof content === 'string'
        ? content
        : parts.map((part) => (isFields(part) && typeof part['text'] === 'string' ? part['text'] : '')).join(''),
    reasoning:
      text(message, 'reasoning_content') ?? (typeof message['reasoning'] === 'string' ? message['reasoning'] : ''),
    calls: calls.map(({ name, arguments: given }) => ({ name, arguments: given })),
    callIds: calls.map(({ id }) => id),
  }
}

/** The markup that our models write, so that every reader of the log finds the parts again. */
export const composed = ({ content, reasoning, calls }: Pick<Said, 'content' | 'reasoning' | 'calls'>): string =>
  [
    reasoning === '' ? '' : `<think>\n${reasoning}\n</think>\n\n`,
    content,
    ...calls.map((call, i) => `${i > 0 || content !== '' ? '\n' : ''}${callMarkup(call)}`),
  ].join('')
