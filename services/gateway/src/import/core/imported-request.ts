/**
 * An imported request with its answers, independent of the source format: a line of a log, a message of a conversation,
 * a step of a trajectory. turns.ts builds our records from it.
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
  type FinishReason,
  type Request,
} from '@instar/dialects'
import type { DialectName, LabelSource, RecordedSampling, TurnKind } from '@instar/events'
import { callMarkup } from '@instar/grammar'

/** The version that the record names. `ours`: the number belongs to this version line, not to another trainer's. */
export type Claim = {
  version: number
  ours: boolean
  /** sha256 of the version's weights, null for the base; absent where the record does not hold it. */
  adapter?: string | null
}

/** `value`: −1…1. `id`, `at`: from the feedback record that it was exported from, if any. */
export type Reward = { id: string | null; value: number; comment: string | null; at: number | null }

export type ImportedAnswer = {
  /** The turn id of an exported turn; null: one is derived from the content. */
  turn: string | null
  candidate: number
  content: string
  reasoning: string
  calls: Call[]
  callIds: string[]
  /** The sampled text with markup; null: composed from the three fields above, or decoded from `ids`. */
  raw: string | null
  finish: FinishReason
  ids: readonly number[] | null
  logprobs: readonly number[] | null
  rewards: Reward[]
}

export type Times = { at: number | null; firstTokenAt: number | null; finishedAt: number | null }

/** `task`: of an exported outcome, if its record named one. `at`: null where the line holds no time of it. */
export type ImportedOutcome = { value: number; task: string | null; at: number | null }

/**
 * `task`: of the request; '' where it is not known, null: no episode. `outcome`: it covers the turns of the session up to
 * this request. `discarded`: the turns of the session up to this request are not used for training.
 */
export type ImportedEpisode = { task: string | null; outcome: ImportedOutcome | null; discarded: boolean }

export type ImportedRequest = {
  session: string
  labelSource: LabelSource
  /** The user turn of an exported record; otherwise the headers may hold it. */
  userTurn: string | null
  /** One of `AGENT_NAMES`. */
  agent: string | null
  dialect: DialectName
  request: Request
  raw: Uint8Array
  headers: Headers
  answers: readonly ImportedAnswer[]
  /** Number of candidates of the request. The record need not hold all of them. */
  candidates: number
  promptIds: readonly number[] | null
  claim: Claim | null
  sampling: RecordedSampling
  times: Times
  user: string | null
  /** The subject of an exported record. */
  subject: string | null
  kind: TurnKind | null
  optedOut: boolean
  /** Input of the derived turn ids, besides the session and the candidate. */
  identity: string
  /** Group shared by candidates of several records; null: the candidates of this record. */
  group: string | null
  engine: string
  /** This gateway sampled these tokens. */
  sampledHere?: boolean
  /** The record says that the conversation ends here. */
  last: boolean
  episode: ImportedEpisode
}

/** Options for parsing records. */
export type Reading = {
  policy: string
  /** Public id of the API key that owns the sessions; null: none. */
  key: string | null
  /** Version numbers of other trainers' records belong to this version line. */
  ownVersions: boolean
  /**
   * Token-exact turns are trainable although our engine did not sample them. Log-probs are no proof: anyone with the
   * weights can compute them for an arbitrary answer.
   */
  unsampled: boolean
  /** The values that are mapped to −1 and 1; null: rewards are −1…1 already. */
  rewards: { from: number; to: number } | null
  /** Decodes ids to text, with `` for a control token; null: no tokenizer. */
  decode: ((ids: readonly number[]) => string) | null
}

/** Accepts true, false, a number in the configured range, or null. Throws `bad_request`. */
export const rewardOf = (value: unknown, where: string, { rewards }: Pick<Reading, 'rewards'>): number | null => {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : -1
  const { from, to } = rewards ?? { from: -1, to: 1 }
  if (typeof value !== 'number' || !(value >= Math.min(from, to) && value <= Math.max(from, to)))
    throw wrong(where, `true, false or a number from ${from} to ${to}`)
  return rewards === null ? value : (2 * (value - from)) / (to - from) - 1
}

/** Converts seconds or milliseconds since 1970, or an ISO 8601 date, to milliseconds. */
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

/** The first of the named fields that is present. */
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

/** Integers of at least 0. Throws `bad_request`. */
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

/** Sampling options from the request and from a `sampling` field, which records of `instar export` hold. */
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

/** Parses an assistant message in the format of Chat Completions. Throws `bad_request`. */
export const saidOf = (
  message: Fields,
  where: string,
): Pick<ImportedAnswer, 'content' | 'reasoning' | 'calls' | 'callIds'> => {
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

/** The answer's text in the markup of our models, so that readers of the log can parse it. */
export const composed = ({
  content,
  reasoning,
  calls,
}: Pick<ImportedAnswer, 'content' | 'reasoning' | 'calls'>): string =>
  [
    reasoning === '' ? '' : `<think>\n${reasoning}\n</think>\n\n`,
    content,
    ...calls.map((call, i) => `${i > 0 || content !== '' ? '\n' : ''}${callMarkup(call)}`),
  ].join('')
