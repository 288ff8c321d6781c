/** The state of the fold of `turns` (turns.ts). */
import type { AnswerKey, Written } from '../records.ts'
import type { Table } from './table.ts'

export type TurnState = {
  turn: string
  /** Its index among the turns of its session. */
  place: number
  /** Id of the record of the turn. */
  record: string
  session: string
  policy: string
  version: number
  status: 'complete' | 'aborted'
  kind: 'main' | 'side'
  group: string
  candidate: number
  candidates: number
  /** False for a candidate that was sampled in the background. */
  shown: boolean
  subject: string
  /** Public id of the API key of the request; null without keys. */
  key: string | null
  trainable: boolean
  reason: string | null
  /** 1 for the first request with this digest in the session, 2 for the second, and so on. */
  attempt: number
  digest: string
  answer: AnswerKey
  /** The turn whose answer the request continues; null if there is none. */
  follows: string | null
  /** The turn whose request contains the next state; null while there is none. */
  next: string | null
  /** True after a SessionClosed listed the turn: it gets no next state. */
  closed: boolean
  /** Record id of that SessionClosed. */
  closedBy: string | null
  /** Record id of the SessionClosed that excluded the turn from training; null: not excluded. */
  discardedBy: string | null
  /** The task of the turn's episode ('': unknown); null: the turn belongs to no episode. */
  task: string | null
  /** Record id of the SessionClosed whose outcome covers the turn; null: none. */
  outcomeBy: string | null
  /** True after a ResponseDeleted named the turn: its response is no longer served by id. */
  deleted: boolean
  /** Feedback that counted, in log order. */
  feedback: { id: string; record: string; value: number; at: number; comment: Written | null }[]
  at: number
  finishedAt: number
  partition: number
  offset: number
  /** What a service keeps with the turn, as plain JSON; no fold reads it. */
  extra?: unknown
}

/** `record`: of the SessionClosed. `task`: null if the record names none. `at`: ms since the epoch. */
export type EpisodeOutcome = { value: number; record: string; task: string | null; at: number }

/** `last`: the latest turn with an answer; `other`: the latest one that answered another request (digest). */
export type LatestAnswer = { last: TurnState; other: TurnState | null }

export type SessionState = {
  session: string
  /** The parent session of a subagent's session, from the first SessionLinked; null: none. */
  parent: string | null
  turns: TurnState[]
  byId: Map<string, TurnState>
  /** The latest shown turns by strict and by loose answer key. */
  byStrict: Map<string, LatestAnswer>
  byLoose: Map<string, LatestAnswer>
  /** The candidates of the requests with more than one. */
  byGroup: ReadonlyMap<string, TurnState[]>
  /** By digest the groups of its requests: most have one. */
  digests: Map<string, string | Set<string>>
  /** Ids of the feedback that counted. */
  feedback: ReadonlySet<string>
  /** True after the first SessionClosed that counted: the session's episode is over. */
  closed: boolean
  /** The first outcome. It covers the shown turns before it. */
  outcome: EpisodeOutcome | null
  lastAt: number
}

export type TurnsState = {
  sessions: Table<string, SessionState>
  /** The turns of all sessions. The fold calls `set` for each turn that it added or changed, then that of `sessions`. */
  turns: Pick<Table<string, TurnState>, 'get' | 'has' | 'set'>
}
export type MemoryTurns = { sessions: Map<string, SessionState>; turns: Map<string, TurnState> }
