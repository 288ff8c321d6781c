/** The gateway's metrics. packages/process/src/metrics/gateway-table.ts documents each of them. */
import type { DialectName, InstarError, TurnAborted, TurnCaptured, TurnSampled } from '@instar/events'
import type { EventLog, Offsets } from '@instar/log'
import { watchLag, type Metrics } from '@instar/process'
import type { IdleOutcome, IdleWork } from '../generate/idle-queue.ts'
import type { GatewayState } from './core/report.ts'

/** Of candidates that are sampled in the background. */
export type Outcome = 'sampled' | 'given_up' | 'failed'

/** `route`: the route's pattern. `dialect`: null unless the request asks for an answer. */
export type Ended = {
  route: string
  dialect: DialectName | null
  status: number
  seconds: number
}

export type Meter = {
  /** Registers the figures of the server's connections. */
  connections(of: { readonly open: number; readonly ended: number }): void
  /** Counts a request of any route when its response is closed. */
  ended(request: Ended): void
  /** Counts an error that is sent to a client, as a response or inside a stream. */
  fault(fault: InstarError): void
  /** Counts a turn that is on the log. `tokens`: how many were generated. */
  turn(turn: TurnCaptured | TurnAborted | TurnSampled, tokens: number): void
  /** Counts judgements of the scorer by the base weights, and their interruptions; candidates are counted one by one. */
  idle(work: IdleWork, outcome: IdleOutcome): void
  /** Counts work for an idle model that begins beside requests. */
  beside(work: IdleWork): void
  /** Counts candidates that were to be sampled in the background. */
  candidates(outcome: Outcome, count: number): void
}

/** `onDamaged`: called with the fault of a damaged row of the snapshot, which only the next process reads anew. */
export const createMeter = (metrics: Metrics, onDamaged: (fault: InstarError) => void): Meter => ({
  connections(of) {
    metrics.read('instar_connections', () => [[{}, of.open]])
    metrics.read('instar_connections_ended_total', () => [[{}, of.ended]])
  },
  ended({ route, dialect, status, seconds }) {
    metrics.count('instar_requests_total', { route, dialect: dialect ?? 'none', status: String(status) })
    if (dialect) metrics.observe('instar_request_duration_seconds', { dialect }, seconds)
  },
  fault(fault) {
    metrics.count('instar_request_errors_total', { code: fault.code })
    if (fault.code === 'snapshot_damaged') onDamaged(fault)
  },
  idle(work, outcome) {
    if (work === 'judgement') metrics.count('instar_judgements_total', { outcome })
  },
  beside: (work) => metrics.count('instar_work_beside_requests_total', { work }),
  candidates: (outcome, count) => metrics.count('instar_background_candidates_total', { outcome }, count),
  turn(turn, tokens) {
    if (turn.type === 'TurnSampled')
      return metrics.count('instar_generation_tokens_total', { dialect: turn.dialect }, tokens)
    const { dialect, kind, labelSource, trainable, reason, candidate } = turn
    metrics.count('instar_turns_total', {
      status: turn.type === 'TurnCaptured' ? 'complete' : 'aborted',
      kind,
      label_source: labelSource,
      trainable: trainable ? 'yes' : 'no',
      reason: reason ?? 'none',
    })
    if (candidate === 0) metrics.count('instar_prompt_tokens_total', { dialect }, turn.prompt.length)
    metrics.count('instar_generation_tokens_total', { dialect }, tokens)
    if (tokens > 0)
      metrics.observe(
        'instar_time_to_first_token_seconds',
        { dialect },
        Math.max(0, turn.firstTokenAt - turn.at) / 1000,
      )
    if (tokens > 1)
      metrics.observe(
        'instar_time_per_output_token_seconds',
        { dialect },
        Math.max(0, turn.finishedAt - turn.firstTokenAt) / 1000 / (tokens - 1),
      )
  },
})

/**
 * Registers gauges that read the gateway's state. Call it after the log was read, so that replayed records are not
 * counted as new ones.
 */
/** `read`: the next offset to read of each partition. */
type Reading = { log: Pick<EventLog, 'ends' | 'read'>; now: () => number; read: () => Offsets }

export const watchGateway = (metrics: Metrics, known: () => GatewayState, reading: Reading): void => {
  watchLag(metrics, reading.log, { service: 'gateway', topics: ['turns', 'weights'], ...reading })
  const one = (name: Gauge, read: (now: GatewayState) => number | null): void =>
    void metrics.read(name, () => {
      const value = read(known())
      return value === null ? [] : [[{}, value]]
    })
  one('instar_requests_running', ({ running }) => running)
  one('instar_request_body_bytes', ({ bodies }) => bodies)
  one('instar_feedback_running', ({ feedback }) => feedback)
  one('instar_background_candidates_waiting', ({ candidates }) => candidates)
  one('instar_judgements_waiting', ({ judgements }) => judgements)
  one('instar_answers_waiting', ({ capture }) => capture.queue().pending)
  one('instar_answers_lost_total', ({ capture }) => capture.queue().failed)
  one('instar_engine_requests_running', ({ engine }) => engine.pending().running)
  one('instar_engine_requests_waiting', ({ engine }) => engine.pending().waiting)
  one('instar_ready', ({ unready }) => (unready === null ? 1 : 0))
  one('instar_version_head', ({ line }) => line.head)
  one('instar_version_served', ({ pool }) => pool.serving()?.version ?? null)
  one('instar_learning_frozen', ({ line }) => (line.frozen ? 1 : 0))
  one('instar_adapters_loaded', ({ pool }) => pool.loadedAdapters().length)
  one('instar_sessions_known', ({ index }) => index.recent.size)
  one('instar_recent_records_bytes', ({ reader }) => reader.recentBytes())
  one('instar_turns_known', ({ index }) => index.turns)
  one('instar_names_held', ({ index }) => index.held?.figures().held ?? null)
  one('instar_names_bytes', ({ index }) => index.held?.figures().bytes ?? null)
  one('instar_names_expired_total', ({ index }) => index.held?.figures().expired ?? null)
  metrics.read('instar_name_reads_total', () =>
    Object.entries(known().index.held?.figures().reads ?? {}).map(([outcome, count]) => [{ outcome }, count]),
  )
  one('instar_records_unreadable_total', ({ bad }) => bad)
  const ignored = (): [topic: 'turns' | 'weights', why: string, count: number][] => {
    const { index, ignoredWeights } = known()
    return (
      [
        ['turns', index.ignored],
        ['weights', ignoredWeights],
      ] as const
    ).flatMap(([topic, counts]) =>
      [...counts].map(([why, count]): [typeof topic, string, number] => [topic, why, count]),
    )
  }
  const before = new Map(ignored().map(([topic, why, count]) => [`${topic} ${why}`, count]))
  metrics.read('instar_records_ignored_total', () =>
    ignored().map(([topic, why, count]) => [
      { service: 'gateway', topic, why },
      count - (before.get(`${topic} ${why}`) ?? 0),
    ]),
  )
}

type Gauge =
  | 'instar_requests_running'
  | 'instar_request_body_bytes'
  | 'instar_feedback_running'
  | 'instar_background_candidates_waiting'
  | 'instar_judgements_waiting'
  | 'instar_answers_waiting'
  | 'instar_answers_lost_total'
  | 'instar_engine_requests_running'
  | 'instar_engine_requests_waiting'
  | 'instar_ready'
  | 'instar_version_head'
  | 'instar_version_served'
  | 'instar_learning_frozen'
  | 'instar_adapters_loaded'
  | 'instar_sessions_known'
  | 'instar_recent_records_bytes'
  | 'instar_turns_known'
  | 'instar_names_held'
  | 'instar_names_bytes'
  | 'instar_names_expired_total'
  | 'instar_records_unreadable_total'
