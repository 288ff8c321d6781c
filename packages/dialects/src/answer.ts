/** An answer as the API shows it: in pieces while it is sampled, or whole. */
export type Call = { name: string; arguments: string }

/** `upTo`: everything of the raw text before it is in this piece or in earlier ones. */
export type Piece =
  | { type: 'content'; text: string; upTo: number }
  | { type: 'reasoning'; text: string; upTo: number }
  | { type: 'calls'; calls: Call[]; upTo: number }

export type Token = { id: number; logprob: number; text: string; top: readonly { id: number; logprob: number }[] }

/** What has been said so far. */
export type Shown = { content: string; reasoning: string; calls: Call[] }

export type Finish = 'stop' | 'length' | 'tool_calls'

export type Choice = {
  shown: Shown
  toolCallIds: readonly string[]
  finish: Finish
  /** The stop string that ended it; null: something else did. */ stop: string | null
  tokens: readonly Token[]
}

/** The last three are part of the first two, of an engine that counts them. */
export type Counts = {
  promptTokens: number
  completionTokens: number
  cachedTokens?: number
  cacheWriteTokens?: number
  reasoningTokens?: number
}

/** What every shape of an answer needs to know of the turn behind it. */
export type AnswerContext = {
  /** Of the first candidate; ids of ours are made from it. */
  turn: string
  session: string
  /** Milliseconds. */
  at: number
  /** The name that the client asked for. */
  model: string
  fingerprint: string
  /** What it is sampled with, the model's own defaults where the client named none. */
  sampling: { temperature: number; topP: number }
  textOf: (token: number) => string
  /** Until the engine says: of a long prompt it takes a while to estimate. */
  readonly promptTokens: number
}

const FRAGMENT = /[^]{1,64}(?![\uDC00-\uDFFF])/g

/** A call's arguments as deltas of up to 64 characters; no character is torn apart. */
export const fragments = (text: string): string[] => text.match(FRAGMENT) ?? []
