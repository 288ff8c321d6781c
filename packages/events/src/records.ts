/**
 * The record types, each in the newest version that this build supports (flow.ts). The Avro schema is
 * `schemas/<topic>/<Name>.vN.avsc`: fields that an older version lacks get the default given there, and fields that a
 * newer version adds are dropped. Times are milliseconds since the epoch; ids are sha256 in lower-case hex unless stated
 * otherwise. No field is an offset of the log.
 */
import type { BlobChunk, UpgradesEvent } from './log-records.ts'
import type { ImportedAdapter, RemoteUpdate, TrainerBound, TrainerScored, UpdateRequested } from './remote-records.ts'
import type { EpisodeRecord } from './episode-records.ts'
import type { ScoredFacts } from './scored-facts.ts'

export type * from './remote-records.ts'
export type { EpisodeBegun, EpisodeEnded, EpisodeRecord } from './episode-records.ts'
export type { ScoredFacts } from './scored-facts.ts'
export type { BlobChunk, LogCut, ReadersUpgraded, SettingsChanged, StateCheckpointed } from './log-records.ts'

/** Text of a person or a model. `keyId`: the key that encrypts it; null: not encrypted. */
export type Written = { keyId: string | null; bytes: Uint8Array }

/**
 * A request body. Its first `prefix` and last `suffix` bytes are those of the body of the turn `from`; the bytes between
 * are in `written` or, above 512 KiB, on `blobs` under the sha256 `blob`. `length` and `sha256` are of the whole body.
 */
export type StoredBody = {
  from: string | null
  prefix: number
  suffix: number
  written: Written
  blob: string | null
  length: number
  sha256: string
}

/** Prompt ids. The first `prefix` are those of the prompt and completion of the turn `from`. `length`: of the whole. */
export type StoredIds = { from: string | null; prefix: number; ids: number[]; length: number }

/** Two hashes of an assistant answer (answer-key.ts): `strict` of its text, `loose` of the trimmed text. */
export type AnswerKey = { strict: string; loose: string }

/** The enum `dialect` of the records of turns in schemas/turns; packages/dialects implements them. */
export const DIALECT_NAMES = ['chat', 'responses', 'messages'] as const
export type DialectName = (typeof DIALECT_NAMES)[number]
export type TurnKind = 'main' | 'side'
/** How the session of a request was found, most reliable first. */
export type LabelSource = 'header' | 'agent' | 'minted' | 'answer' | 'prompt' | 'fingerprint'

export type RecordedSampling = {
  temperature: number
  topP: number
  topK: number
  seed: number
  maxTokens: number
  stop: string[]
}

/** The fields of captured, aborted and sampled turns. `turn`: session id, '.', 32 hex digits created at admission. */
export type TurnFacts = {
  turn: string
  session: string
  policy: string
  /** The version that sampled the answer; −1 for an imported turn of another model. */
  version: number
  /** sha256 of the adapter that sampled the answer; null: the base model. */
  adapter: string | null
  /** Id of the request, shared by its candidates (`n`). */
  group: string
  candidate: number
  /** Number of candidates that are planned; those sampled in the background may be missing. */
  candidates: number
  dialect: DialectName
  kind: TurnKind
  labelSource: LabelSource
  /**
   * The agent's id of the user turn, that is, of all requests (subagents included) that one message of the user caused.
   * Null if the agent sends none.
   */
  userTurn: string | null
  /** Identifies the person: a hash of the request's `user`, or else of the API key, or else the session. */
  subject: string
  /** Public id of the API key; null without keys. */
  key: string | null
  /** sha256 of the canonical request; equal for repeated attempts. */
  digest: string
  body: StoredBody
  /**
   * Key of the answer that the request continues: of its last assistant answer, or of the turn that an id in the request
   * or the text of that answer identifies. Null if there is none, or if no message follows it.
   */
  after: AnswerKey | null
  /** Index of the first message after that answer, where its next state begins. */
  stateFrom: number
  prompt: StoredIds
  sampling: RecordedSampling
  /** `exact`: `ids` and `logprobs` are those of the sampled tokens. `none`: they are not used for ratios. */
  tokens: 'exact' | 'none'
  ids: number[]
  logprobs: number[]
  /** Raw text of the answer, without control tokens, with the markup of tool calls. */
  text: Written
  toolCallIds: string[]
  answer: AnswerKey
  trainable: boolean
  /** Why the turn is not trainable; null if it is. */
  reason: string | null
  /** True if the prompt does not begin with the tokens of the turn that it continues. */
  offPrefix: boolean
  engine: string
  /**
   * The task of the episode that the request belongs to; '' for an episode whose task is not known. Turns with a task
   * wait for the outcome of their episode. Null: not part of an episode. Since version 3; default null.
   */
  task?: string | null
  /**
   * The program that sent the request, one of `AGENT_NAMES` (packages/agents); a later build may know more names. Null:
   * not known. Since version 4; default null.
   */
  agent?: string | null
  /** Times of admission, of the first token sent, and of the last token sent. */
  at: number
  firstTokenAt: number
  finishedAt: number
}

export type TurnCaptured = { type: 'TurnCaptured'; finish: 'stop' | 'length' | 'tool_calls' } & TurnFacts
/** An incomplete answer: `ids` and `text` are those that were sent to the client. */
export type TurnAborted = { type: 'TurnAborted'; why: 'client_gone' | 'engine_failed' | 'shutdown' } & TurnFacts

/**
 * A further candidate of an answered request, sampled in the background and not shown. No turn continues it; it is judged
 * by the next state of the answer that was shown.
 */
export type TurnSampled = { type: 'TurnSampled'; finish: TurnCaptured['finish'] } & TurnFacts

/** `turn` null: the last turn of the session that was shown before this record. `value`: from −1 to 1. */
export type FeedbackGiven = {
  type: 'FeedbackGiven'
  id: string
  session: string
  turn: string | null
  value: number
  comment: Written | null
  subject: string
  key: string | null
  at: number
}
/** Closes the turns that it lists: those without a next state never get one. */
export type SessionClosed = {
  type: 'SessionClosed'
  session: string
  open: string[]
  why: 'idle' | 'client'
  at: number
  /** True: the turns of the session up to this record are not used for training. Since version 2; default false. */
  discarded?: boolean
  /** Reward of the session as an episode, −1…1; null: none. Since version 3; default null. */
  outcome?: number | null
  /** The task of the episode, if it is known at its end; null: that of its turns. Since version 3; default null. */
  task?: string | null
}
/** The parent session of a subagent's session, as reported by the client. */
export type SessionLinked = { type: 'SessionLinked'; session: string; parent: string; at: number }

/** The response of the turn was deleted through the API and is no longer served by id. The turn stays on the log. */
export type ResponseDeleted = { type: 'ResponseDeleted'; session: string; turn: string; at: number }

/** The verdict of a judge. `value` is null if the judge abstained or failed; `note` gives the reason. */
export type JudgeVerdict = { judge: string; value: number | null; note: string }
/** The rank of explicit feedback, or of an abort (`discardRank`), by `at` and then `id`. Null, that of a judge, is the lowest. */
export type Rank = { at: number; id: string }

type ScoreFacts = {
  turn: string
  session: string
  policy: string
  /** The version that sampled the turn. */
  version: number
  subject: string
  verdicts: JudgeVerdict[]
  /** Id of the turn, feedback or closing that caused the score. */
  cause: string
  rank: Rank | null
  /** Since version 2; default null, also where it is not known. */
  of?: ScoredFacts | null
  at: number
}
type Judged = { reward: number; judge: string; hint: Written | null; hintJudge: string | null }
export type TurnScored = { type: 'TurnScored' } & Judged & ScoreFacts
export type TurnSkipped = { type: 'TurnSkipped'; reason: string } & ScoreFacts
export type ScoreRevised = { type: 'ScoreRevised' } & Judged & ScoreFacts

export type BatchItem = {
  turn: string
  /** Record id of the turn, which is a hash of its bytes, so that a later change is detected. */
  record: string
  session: string
  /** Record id of the score. */
  score: string
  subject: string
  version: number
  /** Of a turn without an outcome its score; otherwise outcome + turnScoreWeight · turnScore. */
  reward: number
  baseline: number
  advantage: number
  hint: Written | null
  /** The turn's own score; null: skipped, or sealed by version 1. */
  turnScore?: number | null
  /** The outcome of the turn's episode, and the id of its SessionClosed; null: none. Since version 2; default null. */
  outcome?: number | null
  closing?: string | null
}
type BaselineState = { subject: string; value: number; count: number }
/** Numeric settings of the update and the trainer by name (`StepSettings` in packages/engine). */
export type Settings = Record<string, number>
export type BatchSealed = {
  type: 'BatchSealed'
  prev: string
  policy: string
  number: number
  parent: { version: number; adapter: string | null; state: string | null }
  items: BatchItem[]
  dropped: { turn: string; reason: string }[]
  /** Baselines of the subjects in the batch, after it. */
  baselines: BaselineState[]
  seed: number
  loss: string
  settings: Settings
  at: number
}
type RecordedFingerprint = { engine: string; build: string; isa: string; threads: number; base: string }
export type UpdateComputed = {
  type: 'UpdateComputed'
  prev: string
  policy: string
  /** Record id of its BatchSealed. */
  batch: string
  number: number
  adapter: string
  adapterBytes: number
  state: string
  stateBytes: number
  /** Time at which the blobs were appended, by which they are found on the log. */
  blobsAt: number
  fingerprint: RecordedFingerprint
  figures: Record<string, number>
  /** Of an update on a Tinker server; null: the embedded trainer's. Since version 2; default null. */
  remote?: RemoteUpdate | null
  startedAt: number
  at: number
}

export type UpdateFailed = {
  type: 'UpdateFailed'
  prev: string
  policy: string
  batch: string
  number: number
  reason: string
  at: number
}

export type LineStarted = {
  type: 'LineStarted'
  prev: string
  policy: string
  mode: 'live' | 'replay'
  base: { name: string; sha256: string }
  /** The version from which a branch starts; null: the base model. */
  parent: { policy: string; version: number; adapter: string | null; state: string | null } | null
  settings: Settings
  /** Version 0 is the base model with this adapter, appended at `at`; null: the base model alone. Since version 2; default null. */
  imported?: ImportedAdapter | null
  at: number
}
/** Who asked for a promotion, and why; '' where no reason was given. */
export type Asked = { who: string; why: string }
type VerdictFacts = {
  prev: string
  policy: string
  /** Record id of the UpdateComputed; for a promotion, of the branch's UpdateComputed. */
  update: string
  adapter: string
  parent: number
  figures: Record<string, number>
  /**
   * Settings of the gate under which the figures were measured and judged; empty if the candidate was not measured. Since
   * version 2; default none.
   */
  limits?: Settings
  /** Of a promotion; null: an update. Since version 3; default null. */
  asked?: Asked | null
  at: number
}
export type VersionPublished = VerdictFacts & {
  type: 'VersionPublished'
  number: number
  adapterBytes: number
  state: string
  blobsAt: number
  why: 'update' | 'promotion'
  source: { policy: string; version: number } | null
}
export type VersionRejected = VerdictFacts & { type: 'VersionRejected'; reason: string; evidence: string[] }
/** A rollback, or a move forward to an accepted version. `freeze`: the record also freezes learning. */
export type HeadMoved = {
  type: 'HeadMoved'
  prev: string
  policy: string
  from: number
  to: number
  who: string
  why: string
  request: string
  freeze: boolean
  at: number
}
export type LearningFrozen = {
  type: 'LearningFrozen'
  prev: string
  policy: string
  on: boolean
  who: string
  why: string
  request: string
  at: number
}

export type TurnsEvent =
  | TurnCaptured
  | TurnAborted
  | TurnSampled
  | FeedbackGiven
  | SessionClosed
  | SessionLinked
  | ResponseDeleted
/** Scores of turns. The topic `scores` has records of episodes too. */
export type ScoresEvent = TurnScored | TurnSkipped | ScoreRevised
export type UpdatesEvent = BatchSealed | UpdateComputed | UpdateFailed | TrainerBound | TrainerScored | UpdateRequested
export type WeightsEvent = LineStarted | VersionPublished | VersionRejected | HeadMoved | LearningFrozen
export type Event = TurnsEvent | ScoresEvent | EpisodeRecord | UpdatesEvent | WeightsEvent | BlobChunk | UpgradesEvent

/** A decoded record. `id`: the hash of the record (ids.ts). Partition and offset are those in this log; a copy may differ. */
export type Logged<E extends Event = Event> = {
  id: string
  topic: import('./flow.ts').Topic
  key: string
  partition: number
  offset: number
  timestamp: number
  event: E
}
