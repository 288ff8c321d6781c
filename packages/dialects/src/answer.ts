/** An answer as the API shows it: in pieces while it is sampled, or whole. */
export type Call = { name: string; arguments: string }

/** `upTo`: this piece and the earlier ones contain all raw text before this offset. */
export type Piece =
  | { type: 'content'; text: string; upTo: number }
  | { type: 'reasoning'; text: string; upTo: number }
  | { type: 'calls'; calls: Call[]; upTo: number }

export type Token = { id: number; logprob: number; text: string; top: readonly { id: number; logprob: number }[] }

/** The answer so far. */
export type Shown = { content: string; reasoning: string; calls: Call[] }

export type Finish = 'stop' | 'length' | 'tool_calls'

export type Choice = {
  shown: Shown
  toolCallIds: readonly string[]
  finish: Finish
  /** The stop string that ended it; null: something else did. */ stop: string | null
  tokens: readonly Token[]
}

/** The last three are included in the first two; only engines that report them set them. */
export type Counts = {
  promptTokens: number
  completionTokens: number
  cachedTokens?: number
  cacheWriteTokens?: number
  reasoningTokens?: number
}

/** The data of a turn that every response format needs. */
export type AnswerContext = {
  /** The first candidate's turn id, from which response ids are derived. */
  turn: string
  session: string
  /** Milliseconds. */
  at: number
  /** The name that the client asked for. */
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
