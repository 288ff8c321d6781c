/**
 * Log records → rows, pure: the shared folds say what counts, this file says what is shown of it. A record
 * that does not count becomes a row of `ignored` and nothing else. Feed it every record of the four
 * topics in log order, from the start or from where its state was kept; the caller decides which of the rows are already written.
 */
import { readWritten } from '@instar/events/codec'
import { foldScores, initialScores, type ScoresState } from '@instar/events/folds/scores'
import type { Table } from '@instar/events/folds/table'
import { foldTurns, initialTurns, lastShown, type TurnsState } from '@instar/events/folds/turns'
import { foldUpdates, initialUpdates, type UpdatesState } from '@instar/events/folds/updates'
import { foldWeights, initialWeights, weightLine, type WeightsState } from '@instar/events/folds/weights'
import type { ReadBy } from '@instar/events/flow'
import type {
  BatchSealed,
  FeedbackGiven,
  Logged,
  ScoresEvent,
  SessionClosed,
  TurnAborted,
  TurnCaptured,
  TurnSampled,
  TurnsEvent,
  UpdateComputed,
  UpdateFailed,
  UpdatesEvent,
  VersionPublished,
  WeightsEvent,
} from '@instar/events/records'
import { timestampOf, type Rows } from './rows.ts'

export const PROJECTED = ['turns', 'scores', 'updates', 'weights'] as const satisfies readonly ReadBy<'projections'>[]

/** Raise it when the rows of an old log would come out otherwise: every database is then filled anew. */
export const RULES = 2

export type Projection = {
  turns: TurnsState
  /** One fold for each policy: a branch that scores a turn again changes nothing of the live line's. */
  scores: Table<string, ScoresState>
  updates: UpdatesState
  weights: WeightsState
}

export const initialProjection = (): Projection => ({
  turns: initialTurns(),
  scores: new Map(),
  updates: initialUpdates(),
  weights: initialWeights(),
})

/** Folds one record into `state` and adds its rows. Throws `log_gap` when a chain misses a record. */
export const project = (state: Projection, logged: Logged, rows: Rows): void => {
  const why = fold(state, logged, rows)
  if (why !== null)
    rows.ignored.push({
      topic: logged.topic,
      key: logged.key,
      record_id: logged.id,
      type: logged.event.type,
      why,
      partition: logged.partition,
      position: logged.offset,
    })
}

const fold = (state: Projection, logged: Logged, rows: Rows): string | null => {
  if (isOf(logged, 'turns')) {
    const outcome = foldTurns(state.turns, logged)
    if (!outcome.counted) return outcome.why
    turnsRows(state.turns, logged, rows)
  } else if (isOf(logged, 'scores')) {
    const scores = state.scores.get(logged.key) ?? initialScores()
    state.scores.set(logged.key, scores)
    const outcome = foldScores(scores, logged)
    if (!outcome.counted) return outcome.why
    scoreRow(scores, logged, rows)
  } else if (isOf(logged, 'updates')) {
    const outcome = foldUpdates(state.updates, logged)
    if (!outcome.counted) return outcome.why
    updatesRows(logged, rows)
  } else if (isOf(logged, 'weights')) {
    const { head } = weightLine(state.weights, logged.event.policy)
    const outcome = foldWeights(state.weights, logged)
    if (!outcome.counted) return outcome.why
    weightsRows(state.weights, head, logged, rows)
  }
  return null
}

type EventOf = { turns: TurnsEvent; scores: ScoresEvent; updates: UpdatesEvent; weights: WeightsEvent }

const isOf = <T extends keyof EventOf>(logged: Logged, topic: T): logged is Logged<EventOf[T]> => logged.topic === topic

const turnsRows = (state: TurnsState, logged: Logged<TurnsEvent>, rows: Rows): void => {
  const { event, id } = logged
  if (event.type === 'FeedbackGiven') feedbackRow(state, event, id, rows)
  else if (event.type === 'SessionClosed') closedRows(state, event, id, rows)
  else if (event.type === 'SessionLinked')
    rows.session_links.push({
      session_id: event.session,
      parent_session_id: event.parent,
      at: timestampOf(event.at),
      record_id: id,
    })
  else if (event.type !== 'ResponseDeleted') turnRow(state, event, id, rows)
}

const turnRow = (state: TurnsState, event: TurnCaptured | TurnAborted | TurnSampled, id: string, rows: Rows): void => {
  const turn = state.turns.get(event.turn)
  const session = state.sessions.get(event.session)
  if (!turn || !session) return
  if (session.turns[0] === turn) {
    rows.sessions.push({
      session_id: event.session,
      policy: event.policy,
      subject: event.subject,
      key_id: event.key,
      label_source: event.labelSource,
      dialect: event.dialect,
      first_turn_id: event.turn,
      started_at: timestampOf(event.at),
    })
  }
  rows.turns.push({
    turn_id: event.turn,
    session_id: event.session,
    policy: event.policy,
    version: event.version,
    adapter: event.adapter,
    group_id: event.group,
    candidate: event.candidate,
    candidates: event.candidates,
    shown: turn.shown,
    dialect: event.dialect,
    kind: event.kind,
    label_source: event.labelSource,
    user_turn: event.userTurn,
    subject: event.subject,
    key_id: event.key,
    status: turn.status,
    finish: event.type === 'TurnAborted' ? event.why : event.finish,
    trainable: event.trainable,
    reason: event.reason,
    off_prefix: event.offPrefix,
    tokens: event.tokens,
    attempt: turn.attempt,
    follows_turn_id: turn.follows,
    next_turn_id: null,
    next_state: turn.shown ? 'open' : 'none',
    prompt_tokens: event.prompt.length,
    completion_tokens: event.ids.length,
    started_at: timestampOf(event.at),
    first_token_at: timestampOf(event.firstTokenAt),
    finished_at: timestampOf(event.finishedAt),
    ttft_ms: event.firstTokenAt - event.at,
    latency_ms: event.finishedAt - event.at,
    temperature: event.sampling.temperature,
    engine: event.engine,
    digest: event.digest,
    record_id: id,
  })
  const followed = turn.follows === null ? undefined : state.turns.get(turn.follows)
  if (followed?.next === turn.turn)
    rows.next_states.push({ turn_id: followed.turn, next_state: 'turn', next_turn_id: turn.turn })
}

const feedbackRow = (state: TurnsState, event: FeedbackGiven, id: string, rows: Rows): void => {
  const turn = event.turn ?? lastShown(state.sessions.get(event.session))?.turn
  if (turn === undefined) return
  rows.feedback.push({
    feedback_id: event.id,
    turn_id: turn,
    session_id: event.session,
    value: event.value,
    subject: event.subject,
    key_id: event.key,
    at: timestampOf(event.at),
    record_id: id,
  })
}

const closedRows = (state: TurnsState, event: SessionClosed, id: string, rows: Rows): void => {
  for (const turn of new Set(event.open)) {
    if (state.turns.get(turn)?.closedBy === id)
      rows.next_states.push({ turn_id: turn, next_state: 'none', next_turn_id: null })
  }
}

const scoreRow = (state: ScoresState, logged: Logged<ScoresEvent>, rows: Rows): void => {
  const { event, id } = logged
  const score = state.turns.get(event.turn)
  if (!score) return
  rows.all_scores.push({
    policy: logged.key,
    turn_id: event.turn,
    revision: score.revision,
    session_id: event.session,
    version: event.version,
    subject: event.subject,
    reward: score.reward,
    judge: score.judge,
    reason: score.reason,
    hint: score.hint && readWritten(score.hint),
    hint_judge: event.type === 'TurnSkipped' ? null : event.hintJudge,
    verdicts: event.verdicts,
    cause: event.cause,
    explicit: event.rank !== null,
    at: timestampOf(event.at),
    record_id: id,
  })
}

const updatesRows = (logged: Logged<UpdatesEvent>, rows: Rows): void => {
  const { event, id } = logged
  if (event.type === 'BatchSealed') batchRows(event, id, rows)
  else rows.all_outcomes.push(outcomeRow(event, id))
}

const batchRows = (event: BatchSealed, id: string, rows: Rows): void => {
  const { items, dropped } = event
  rows.all_batches.push({
    batch_id: id,
    policy: event.policy,
    number: event.number,
    parent_version: event.parent.version,
    parent_adapter: event.parent.adapter,
    items: items.length,
    dropped: dropped.length,
    mean_reward: items.length === 0 ? null : items.reduce((sum, item) => sum + item.reward, 0) / items.length,
    loss: event.loss,
    seed: event.seed,
    settings: event.settings,
    sealed_at: timestampOf(event.at),
  })
  for (const item of items) {
    rows.all_batch_turns.push({
      batch_id: id,
      turn_id: item.turn,
      policy: event.policy,
      used: true,
      reason: null,
      session_id: item.session,
      subject: item.subject,
      version: item.version,
      turn_record_id: item.record,
      score_id: item.score,
      reward: item.reward,
      baseline: item.baseline,
      advantage: item.advantage,
      hint: item.hint && readWritten(item.hint),
    })
  }
  for (const { turn, reason } of dropped)
    rows.all_batch_turns.push({ batch_id: id, turn_id: turn, policy: event.policy, used: false, reason })
}

const outcomeRow = (event: UpdateComputed | UpdateFailed, id: string): Rows['all_outcomes'][number] => {
  const shared = {
    update_id: id,
    policy: event.policy,
    batch_id: event.batch,
    number: event.number,
    finished_at: timestampOf(event.at),
  }
  if (event.type === 'UpdateFailed') return { ...shared, failure: event.reason, figures: {} }
  return {
    ...shared,
    adapter: event.adapter,
    adapter_bytes: event.adapterBytes,
    state: event.state,
    state_bytes: event.stateBytes,
    failure: null,
    fingerprint: event.fingerprint,
    figures: event.figures,
    started_at: timestampOf(event.startedAt),
  }
}

/** `head`: before this record. */
const weightsRows = (state: WeightsState, head: number, logged: Logged<WeightsEvent>, rows: Rows): void => {
  const { event, id } = logged
  const { policy } = event
  const at = timestampOf(event.at)
  const seq = weightLine(state, policy).moved
  switch (event.type) {
    case 'LineStarted':
      rows.lines.push({
        policy,
        mode: event.mode,
        base_name: event.base.name,
        base_sha256: event.base.sha256,
        parent_policy: event.parent?.policy ?? null,
        parent_version: event.parent?.version ?? null,
        settings: event.settings,
        started_at: at,
        record_id: id,
      })
      rows.all_versions.push({
        policy,
        version: 0,
        parent: null,
        sha256: event.parent?.adapter ?? null,
        state: event.parent?.state ?? null,
        update_id: null,
        why: 'base',
        source_policy: event.parent?.policy ?? null,
        source_version: event.parent?.version ?? null,
        figures: {},
        published_at: at,
        record_id: id,
      })
      rows.all_head_moves.push({
        policy,
        seq: 0,
        from_version: null,
        to_version: 0,
        why: 'base',
        who: 'publisher',
        froze: false,
        request: null,
        at,
        record_id: id,
      })
      break
    case 'VersionPublished':
      rows.all_versions.push(versionRow(event, id))
      rows.all_head_moves.push({
        policy,
        seq,
        from_version: head,
        to_version: event.number,
        why: event.why,
        who: 'publisher',
        froze: false,
        request: null,
        at,
        record_id: id,
      })
      break
    case 'VersionRejected':
      rows.all_rejections.push({
        record_id: id,
        policy,
        update_id: event.update,
        adapter: event.adapter,
        parent: event.parent,
        reason: event.reason,
        figures: event.figures,
        evidence: event.evidence,
        at,
      })
      break
    case 'HeadMoved':
      rows.all_head_moves.push({
        policy,
        seq,
        from_version: head,
        to_version: event.to,
        why: event.why,
        who: event.who,
        froze: event.freeze,
        request: event.request,
        at,
        record_id: id,
      })
      break
    case 'LearningFrozen':
      rows.all_freezes.push({
        record_id: id,
        policy,
        frozen: event.on,
        why: event.why,
        who: event.who,
        request: event.request,
        at,
      })
      break
  }
}

const versionRow = (event: VersionPublished, id: string): Rows['all_versions'][number] => ({
  policy: event.policy,
  version: event.number,
  parent: event.parent,
  sha256: event.adapter,
  adapter_bytes: event.adapterBytes,
  state: event.state,
  update_id: event.update,
  why: event.why,
  source_policy: event.source?.policy ?? null,
  source_version: event.source?.version ?? null,
  figures: event.figures,
  published_at: timestampOf(event.at),
  record_id: id,
})
