/** The types of an answer as the dialects return it: in pieces while it is sampled, or whole. */
export type { TokenCounts } from '@instar/engine/port'

export type Call = { name: string; arguments: string }

/** `upTo`: offset in the sampled text, in UTF-16 code units, up to which this piece and the earlier ones cover it. */
export type Piece =
  | { type: 'content'; text: string; upTo: number }
  | { type: 'reasoning'; text: string; upTo: number }
  | { type: 'calls'; calls: Call[]; upTo: number }

/** `unreported`: the engine gave no log-probability; `logprob` is 0 then. */
export type Token = {
  id: number
  logprob: number
  text: string
  top: readonly { id: number; logprob: number }[]
  unreported?: true
}

/** The answer, parsed so far. */
export type ParsedAnswer = { content: string; reasoning: string; calls: Call[] }

export type FinishReason = 'stop' | 'length' | 'tool_calls'

export type Choice = {
  shown: ParsedAnswer
  toolCallIds: readonly string[]
  finish: FinishReason
  /** The stop string that ended the answer; null if none did. */ stop: string | null
  tokens: readonly Token[]
}

/** The data of a turn that every response format needs. */
export type AnswerContext = {
  /** The first candidate's turn id, from which response ids are derived. */
  turn: string
  session: string
  /** Milliseconds since 1970. */
  at: number
  /** The `model` of the request. */
  model: string
  fingerprint: string
  /** The effective sampling options, including the model's defaults. */
  sampling: { temperature: number; topP: number }
  textOf: (token: number) => string
  /** An estimate until the engine reports its count. Computed on access, since estimating a long prompt is slow. */
  readonly promptTokens: number
}

const FRAGMENT = /[^]{1,64}(?![\uDC00-\uDFFF])/g

/** Splits a call's arguments into deltas of up to 64 characters, never inside a surrogate pair. */
export const fragments = (text: string): string[] => text.match(FRAGMENT) ?? []
