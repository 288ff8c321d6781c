/**
 * Converts log records to rows, without I/O. The shared folds decide whether a record counts; a record that does not
 * count, or of which PostgreSQL rejects a value, becomes a row of `ignored` only. `project` must be called with every
 * record of the four topics in log order, from the start or from the position of the stored state; the caller decides
 * which rows to write.
 */
import { readWritten } from '@instar/events/codec'
import { isEpisodeRecord } from '@instar/events/episode-records'
import { foldScores, initialScores, isDiscardRank, type ScoresState } from '@instar/events/folds/scores'
import type { Table } from '@instar/events/folds/table'
import { foldTurns, initialTurns, type TurnsState } from '@instar/events/folds/turns'
import { foldUpdates, initialUpdates, type UpdatesState } from '@instar/events/folds/updates'
import { foldWeights, initialWeights, weightLine, type WeightsState } from '@instar/events/folds/weights'
import type { ReadBy } from '@instar/events/flow'
import type {
  BatchSealed,
  Logged,
  ScoresEvent,
  TurnsEvent,
  UpdateComputed,
  UpdateFailed,
  UpdatesEvent,
  WeightsEvent,
} from '@instar/events/records'
import { keepIfFit, lengthsOf } from './fit.ts'
import { hasValidTimes, timestampOf, type ProjectedRows } from './rows.ts'
import { turnsRows } from './turn-rows.ts'
import { withoutDigests } from './verdict-notes.ts'
import { weightsRows } from './weight-rows.ts'

export const PROJECTED = ['turns', 'scores', 'updates', 'weights'] as const satisfies readonly ReadBy<'projections'>[]

/** Version of the rules. It must be increased if the same log gives other rows; databases are then refilled. */
export const RULES = 6

export type Projection = {
  turns: TurnsState
  /** One fold per policy, since a branch may score turns of the live line again. */
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

/** Folds a record into `state` and adds its rows to `rows`. Throws `log_gap` if a record of a chain is missing. */
export const project = (state: Projection, logged: Logged, rows: ProjectedRows): void => {
  const before = lengthsOf(rows)
  const why = fold(state, logged, rows) ?? (keepIfFit(rows, before) ? null : VALUE_OUT_OF_RANGE)
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

/** A record that counts but has a time or another value that no column holds: the folds have it, the rows do not. */
const TIME_OUT_OF_RANGE = 'time_out_of_range'
const VALUE_OUT_OF_RANGE = 'value_out_of_range'

/** The reason if the record does not count or cannot be rows, else null. */
const fold = (state: Projection, logged: Logged, rows: ProjectedRows): string | null => {
  if (isOf(logged, 'turns')) {
    const outcome = foldTurns(state.turns, logged)
    if (!outcome.counted) return outcome.why
    if (!hasValidTimes(logged.event)) return TIME_OUT_OF_RANGE
    turnsRows(state.turns, logged, rows)
  } else if (isEpisodeRecord(logged.event)) {
    // No row: turns and closing are on `turns`.
    return null
  } else if (isOf(logged, 'scores')) {
    const scores = state.scores.get(logged.key) ?? initialScores()
    state.scores.set(logged.key, scores)
    const outcome = foldScores(scores, logged)
    if (!outcome.counted) return outcome.why
    if (!hasValidTimes(logged.event)) return TIME_OUT_OF_RANGE
    scoreRow(scores, logged, rows)
  } else if (isOf(logged, 'updates')) {
    const outcome = foldUpdates(state.updates, logged)
    if (!outcome.counted) return outcome.why
    if (!hasValidTimes(logged.event)) return TIME_OUT_OF_RANGE
    updatesRows(logged, rows)
  } else if (isOf(logged, 'weights')) {
    const { head } = weightLine(state.weights, logged.event.policy)
    const outcome = foldWeights(state.weights, logged)
    if (!outcome.counted) return outcome.why
    if (!hasValidTimes(logged.event)) return TIME_OUT_OF_RANGE
    weightsRows(state.weights, head, logged, rows)
  }
  return null
}

type EventOf = { turns: TurnsEvent; scores: ScoresEvent; updates: UpdatesEvent; weights: WeightsEvent }

const isOf = <T extends keyof EventOf>(logged: Logged, topic: T): logged is Logged<EventOf[T]> => logged.topic === topic

const scoreRow = (state: ScoresState, logged: Logged<ScoresEvent>, rows: ProjectedRows): void => {
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
    verdicts: withoutDigests(event.verdicts),
    cause: event.cause,
    explicit: event.rank !== null && !isDiscardRank(event.rank),
    at: timestampOf(event.at),
    record_id: id,
  })
}

const updatesRows = (logged: Logged<UpdatesEvent>, rows: ProjectedRows): void => {
  const { event, id } = logged
  if (event.type === 'BatchSealed') batchRows(event, id, rows)
  else if (event.type === 'UpdateComputed' || event.type === 'UpdateFailed')
    rows.all_outcomes.push(outcomeRow(event, id))
}

const batchRows = (event: BatchSealed, id: string, rows: ProjectedRows): void => {
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
      turn_score: item.turnScore ?? null,
      outcome: item.outcome ?? null,
      closing: item.closing ?? null,
    })
  }
  for (const { turn, reason } of dropped)
    rows.all_batch_turns.push({ batch_id: id, turn_id: turn, policy: event.policy, used: false, reason })
}

const outcomeRow = (event: UpdateComputed | UpdateFailed, id: string): ProjectedRows['all_outcomes'][number] => {
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
