/**
 * The record types. Each is the newest version that this build supports (flow.ts). Its Avro schema is
 * `schemas/<topic>/<Name>.vN.avsc`; fields that older versions lack take the default given there, and fields that
 * newer versions add are dropped.
 * Times are milliseconds since the epoch; ids are lower-case hex sha256 unless stated otherwise. No field is an
 * offset.
 */

/** Text that a person wrote. `keyId` names the key that encrypts it; null: not encrypted. */
export type Written = { keyId: string | null; bytes: Uint8Array }

/**
 * A request body as sent, less what it repeats of an earlier turn of its session: the first `prefix` and
 * the last `suffix` bytes are those of the body of `from`. `sha256` is of the whole body.
 * A `middle` above 512 KiB is in `blobs` under `blob`, and `written` is empty.
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

/** Prompt ids: the first `prefix` are those of `from`'s prompt followed by its completion. */
export type StoredIds = { from: string | null; prefix: number; ids: number[]; length: number }

/** Two hashes of an assistant answer (answer-key.ts): `strict` keeps outer blanks, `loose` trims them. */
export type AnswerKey = { strict: string; loose: string }

export const DIALECT_NAMES = ['chat', 'responses', 'messages'] as const
export type DialectName = (typeof DIALECT_NAMES)[number]
export type TurnKind = 'main' | 'side'
/** How the session was found, strongest first. */
export type LabelSource = 'header' | 'agent' | 'minted' | 'answer' | 'prompt' | 'fingerprint'

export type RecordedSampling = {
  temperature: number
  topP: number
  topK: number
  seed: number
  maxTokens: number
  stop: string[]
}

/** What captured, aborted and sampled turns share. `turn` = session id + '.' + 32 hex digits, minted at admission. */
export type TurnFacts = {
  turn: string
  session: string
  policy: string
  /** The version that sampled the answer; -1 for an imported turn of another model. */
  version: number
  /** sha256 of the adapter that answered; null: the base. */
  adapter: string | null
  /** One request; its candidates (`n`) share it. */
  group: string
  candidate: number
  /** How many there are to be; those sampled in the background may stay away. */
  candidates: number
  dialect: DialectName
  kind: TurnKind
  labelSource: LabelSource
  /**
   * The agent's id of the user turn: all requests, subagents' included, that one message of the user caused. Null
   * when the agent sends none.
   */
  userTurn: string | null
  /** Whose words these are: a hash of the request's `user`, else of the key, else the session. */
  subject: string
  /** API key's public id, null without keys. */
  key: string | null
  /** sha256 of the canonical request, so that attempts at one thing are seen as such. */
  digest: string
  body: StoredBody
  /**
   * Key of the answer that the request continues: the last assistant answer in it, or the turn that an id in the
   * request or the text of that answer identifies. Null when there is none, or when no message follows it.
   */
  after: AnswerKey | null
  /** Index of the first message after that answer: the start of its next state. */
  stateFrom: number
  prompt: StoredIds
  sampling: RecordedSampling
  /** `exact`: ids and log-probs are those that were sampled. `none`: not used for ratios. */
  tokens: 'exact' | 'none'
  ids: number[]
  logprobs: number[]
  /** Raw text of the answer, control tokens out, tool-call markup in. */
  text: Written
  toolCallIds: string[]
  answer: AnswerKey
  trainable: boolean
  /** Why not trainable; null if it is. */
  reason: string | null
  /** The prompt does not extend the tokens of the turn that it follows. */
  offPrefix: boolean
  engine: string
  /** Admission, first token out, last token out. */
  at: number
  firstTokenAt: number
  finishedAt: number
}

export type TurnCaptured = { type: 'TurnCaptured'; finish: 'stop' | 'length' | 'tool_calls' } & TurnFacts
/** The answer was cut: `ids` and `text` are exactly what was flushed to the client. */
export type TurnAborted = { type: 'TurnAborted'; why: 'client_gone' | 'engine_failed' | 'shutdown' } & TurnFacts

/**
 * One more candidate of a request that is answered already, sampled in the background and not shown. No turn
 * continues from it; the next state of the shown answer is used to judge it.
 */
export type TurnSampled = { type: 'TurnSampled'; finish: TurnCaptured['finish'] } & TurnFacts

/** `turn` null: the last turn before this record in the session that was shown. `value` −1…1. */
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
/** Closes exactly the turns it lists; each one still without a next state gets none, for good. */
export type SessionClosed = {
  type: 'SessionClosed'
  session: string
  open: string[]
  why: 'idle' | 'client'
  at: number
  /** True: the session's turns up to this record are not used for training. From version 2 on; absent: false. */
  discarded?: boolean
}
/** A subagent's session and its parent session, as the client reports them. */
export type SessionLinked = { type: 'SessionLinked'; session: string; parent: string; at: number }

/** The turn's response was deleted through the API: it is no longer served by an id. The record stays on the log. */
export type ResponseDeleted = { type: 'ResponseDeleted'; session: string; turn: string; at: number }

/** One judge's verdict. `value` is null when the judge abstained or failed; `note` gives the reason. */
export type JudgeVerdict = { judge: string; value: number | null; note: string }
/** Explicit feedback outranks; of two, the later (`at`, then `id`). Null: a judge, rank 0. */
export type Rank = { at: number; id: string }

type ScoreFacts = {
  turn: string
  session: string
  policy: string
  /** The version that sampled the turn. */
  version: number
  subject: string
  verdicts: JudgeVerdict[]
  /** The turn, feedback or closing that gave rise to it. */
  cause: string
  rank: Rank | null
  at: number
}
type Judged = { reward: number; judge: string; hint: Written | null; hintJudge: string | null }
export type TurnScored = { type: 'TurnScored' } & Judged & ScoreFacts
export type TurnSkipped = { type: 'TurnSkipped'; reason: string } & ScoreFacts
export type ScoreRevised = { type: 'ScoreRevised' } & Judged & ScoreFacts

export type BatchItem = {
  turn: string
  /** Record id of the turn: a later change of one byte of it is seen. */
  record: string
  session: string
  /** Record id of the score that is used. */
  score: string
  subject: string
  version: number
  reward: number
  baseline: number
  advantage: number
  hint: Written | null
}
type BaselineState = { subject: string; value: number; count: number }
/** Number-valued settings of the update and of the trainer, by name (packages/policy StepSettings). */
export type Settings = Record<string, number>
export type BatchSealed = {
  type: 'BatchSealed'
  prev: string
  policy: string
  number: number
  parent: { version: number; adapter: string | null; state: string | null }
  items: BatchItem[]
  dropped: { turn: string; reason: string }[]
  /** Baselines after this batch, of the subjects in it. */
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
  /** When the blobs were appended: where to look for them. */
  blobsAt: number
  fingerprint: RecordedFingerprint
  figures: Record<string, number>
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
  /** Where a branch leaves its trunk; null: the base model. */
  parent: { policy: string; version: number; adapter: string | null; state: string | null } | null
  settings: Settings
  at: number
}
export type VersionPublished = {
  type: 'VersionPublished'
  prev: string
  policy: string
  number: number
  /** Record id of the UpdateComputed; for a promotion that of the branch's. */
  update: string
  adapter: string
  adapterBytes: number
  state: string
  blobsAt: number
  parent: number
  why: 'update' | 'promotion'
  source: { policy: string; version: number } | null
  figures: Record<string, number>
  at: number
}
export type VersionRejected = {
  type: 'VersionRejected'
  prev: string
  policy: string
  update: string
  adapter: string
  parent: number
  reason: string
  figures: Record<string, number>
  evidence: string[]
  at: number
}
/** A rollback (or a move forward to a version already accepted). `freeze`: learning stops in the same record. */
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

export type BlobChunk = {
  type: 'BlobChunk'
  sha256: string
  index: number
  count: number
  bytes: Uint8Array
  at: number
}

/** All readers of this log know these record types up to these versions: from here on they are written. */
export type ReadersUpgraded = { type: 'ReadersUpgraded'; versions: Record<string, number>; who: string; at: number }

export type TurnsEvent =
  | TurnCaptured
  | TurnAborted
  | TurnSampled
  | FeedbackGiven
  | SessionClosed
  | SessionLinked
  | ResponseDeleted
export type ScoresEvent = TurnScored | TurnSkipped | ScoreRevised
export type UpdatesEvent = BatchSealed | UpdateComputed | UpdateFailed
export type WeightsEvent = LineStarted | VersionPublished | VersionRejected | HeadMoved | LearningFrozen
export type Event = TurnsEvent | ScoresEvent | UpdatesEvent | WeightsEvent | BlobChunk | ReadersUpgraded

/** A decoded record. `id` is the hash of the whole record (ids.ts), position is this log's own affair. */
export type Logged<E extends Event = Event> = {
  id: string
  topic: import('./flow.ts').Topic
  key: string
  partition: number
  offset: number
  timestamp: number
  event: E
}
