/** Rows of `/v1/dashboard`, as far as the pages use them. Times are ISO 8601. */

export type VersionRow = {
  version: number
  parent: number | null
  status: string
  why: string
  published_at: string
  source_policy: string | null
  source_version: number | null
  turns: number
  side_turns: number
  aborted: number
  sessions: number
  scored: number
  skipped: number
  feedback: number
  reward: number | null
  reward_low: number | null
  reward_high: number | null
  trained_turns: number | null
  trained_reward: number | null
  kl_parent: number | null
  kl_base: number | null
  content: number | null
  entropy: number | null
  sampled_length: number | null
  repetition: number | null
  loss: number | null
  grad_norm: number | null
  forward_prompt_tokens: number | null
  forward_response_tokens: number | null
  teacher_tokens: number | null
  backward_prompt_tokens: number | null
  backward_response_tokens: number | null
  completion_tokens: number | null
  latency_p50_ms: number | null
  latency_p99_ms: number | null
  head_from: string | null
  head_to: string | null
  head_seconds: number | null
  /** With the row of one version. */
  gate_figures?: Record<string, number> | null
  update_figures?: Record<string, number> | null
}

export type UpdateRow = {
  number: number
  status: 'sealed' | 'computed' | 'accepted' | 'rejected' | 'failed'
  reason: string | null
  version: number | null
  parent_version: number
  items: number
  dropped: number
  mean_reward: number | null
  sealed_at: string
  started_at: string | null
  finished_at: string | null
  decided_at: string | null
}

export type MoveRow = {
  seq: number
  from_version: number | null
  to_version: number
  why: string
  who: string
  froze: boolean
  at: string
  /** Of a promotion: from which branch, who asked for it, and why. */
  branch: string | null
  asked_by: string | null
  asked_why: string | null
}
/** A promotion that the gate rejected. */
export type RefusalRow = {
  reason: string
  parent: number
  asked_by: string
  asked_why: string
  at: string
  branch: string | null
}
export type FreezeRow = { frozen: boolean; why: string; who: string; at: string }
/** `figures`: of its last version, `version`. `started_from`: a version of the line; null: of none. */
export type BranchRow = {
  name: string
  version: number
  started_from: number | null
  /** How many branches there are. */
  of_all: number
  published_at: string
  figures: Record<string, number> | null
  promoted: boolean
}
export type Lineage = {
  branches: BranchRow[]
  versions: VersionRow[]
  updates: UpdateRow[]
  moves: MoveRow[]
  freezes: FreezeRow[]
  refusals: RefusalRow[]
  /** Up to when there are older rows; null: there are none. */
  next: string | null
}
/** Of `versions?until=`. */
export type OlderLineage = Omit<Lineage, 'branches'>

export type BatchTurnRow = {
  turn_id: string
  session_id: string | null
  subject: string | null
  version: number | null
  used: boolean
  reason: string | null
  reward: number | null
  turn_score: number | null
  outcome: number | null
  baseline: number | null
  advantage: number | null
  hint: string | null
}

export type SessionRow = {
  session_id: string
  subject: string
  key_id: string | null
  label_source: string
  dialect: string
  started_at: string
  last_at: string | null
  turns: number
  side_turns: number
  versions: number[] | null
  /** Null: of a turn whose record has none. */
  agents: (string | null)[] | null
  scored: number
  reward: number | null
  task: string | null
  outcome: number | null
  discarded: boolean | null
  parent_session_id: string | null
}

export type TurnRow = {
  turn_id: string
  session_id: string
  version: number
  candidate: number
  candidates: number
  shown: boolean
  kind: string
  status: string
  finish: string
  trainable: boolean
  turn_reason: string | null
  off_prefix: boolean
  follows_turn_id: string | null
  next_state: 'open' | 'turn' | 'none'
  next_turn_id: string | null
  prompt_tokens: number
  completion_tokens: number
  started_at: string
  latency_ms: number
  ttft_ms: number
  temperature: number
  agent: string | null
  task: string | null
  reward: number | null
  judge: string | null
  score_reason: string | null
  hint: string | null
  verdicts: { judge: string; value: number | null; note: string }[] | null
  explicit: boolean | null
  revision: number | null
  batch_id: string | null
  used: boolean | null
  drop_reason: string | null
  baseline: number | null
  advantage: number | null
  trained_hint: string | null
  update_number: number | null
  trained_version: number | null
  feedback: { value: number; at: string }[] | null
}

export type CandidateRow = {
  turn_id: string
  candidate: number
  shown: boolean
  version: number
  completion_tokens: number
  reward: number | null
  hint: string | null
  used: boolean | null
  advantage: number | null
}

/** Of `turns/{id}/learned`: log-probs and weights by token. `ratio`: the geometric mean of p_old/q. */
export type LearnedRow = {
  loss: string
  parent_version: number
  advantage: number
  old: number[]
  importance: number[]
  importance_max: number
  masked: boolean
  ratio: number
  ratio_max: number
  teacher: number[] | null
  hint_dropped: boolean
  opd_weight: number
  no_teacher: string | null
}

export type Next = { at: string; id: string } | null
export type ShownText = { text: string; omitted: number }
export type TurnTextRow = {
  /** What a side request of an agent is for. */
  task: 'title' | 'compaction' | 'memory' | null
  omitted: number
  messages: { role: string; name: string | null; content: ShownText; calls: { name: string; input: ShownText }[] }[]
  answer: ShownText
  comments: { id: string; value: number; at: string; said: ShownText }[]
}
/** `level`: as of `instar doctor`. */
export type CheckRow = { name: string; level: 'ok' | 'note' | 'unsure' | 'wrong'; found: string; todo: string | null }
export type HitRow = {
  session_id: string
  turn_id: string
  who: string
  before: string
  match: string
  after: string
}
export type SearchRows = { hits: HitRow[]; searched: number; next: { at: number; id: string } | null }
type Counts = Record<string, number>
type ScoredRow = { scored: number; skipped: number; hinted: number; reward: number | null; reasons: Counts }
/** `dropped`, `used`: turns of the batches that were sealed then. `rewards`: turns in each fifth of −1…1. */
export type TimeRow = ScoredRow & { at: string; judges: Counts; rewards: number[]; dropped: Counts; used: number }
/** `dropped`, `used`: turns of the batch that made the version. */
export type VersionScoresRow = ScoredRow & { version: number; dropped: Counts; used: number }
export type JudgeRow = { name: string; count: number; reward: number | null }
/** Scores of a person or of a key. `name` null: without a key. */
export type CallerRow = {
  name: string | null
  sessions: number
  count: number
  scored: number
  hinted: number
  reward: number | null
  last_at: string
}
export type CallerPage = { rows: CallerRow[]; next: number | null }
/** Rewards over time of one of the 20 with most scores: where an interval begins (ms), mean reward, scores. */
export type CallerCurve = { name: string | null; points: [at: number, reward: number, scored: number][] }
/** Of the newest 100,000 scores and 1,000 batches. `step`: length of an interval of `times`, in seconds. */
export type Learning = Lineage & {
  step: number
  times: TimeRow[]
  by_version: VersionScoresRow[]
  judges: JudgeRow[]
  subjects: CallerPage
  keys: CallerPage
  subject_curves: CallerCurve[]
  key_curves: CallerCurve[]
}
