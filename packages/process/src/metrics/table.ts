/**
 * Every metric of an Instar process; docs/metrics.md is generated from it. Labels are bounded: each has listed values or a
 * maximum number of values, beyond which the value is `other`. Text, session, turn, user, key and model name are never labels.
 */
import { ERRORS } from '@instar/events/errors'
import { DIALECT_NAMES } from '@instar/events/records'
import {
  TOPIC,
  SERVICE,
  FEW,
  SHORT_SECONDS,
  FIRST_TOKEN_SECONDS,
  PER_TOKEN_SECONDS,
  REQUEST_SECONDS,
  UPDATE_SECONDS,
  TRAINER_WAITS,
  PUBLISHER_WAITS,
  type LabelValues,
} from './labels.ts'

export type MetricEntry = {
  type: 'counter' | 'gauge' | 'histogram'
  /** The service that exports it; `process`: every one. */
  of: 'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections' | 'process'
  help: string
  labels?: Readonly<Record<string, LabelValues>>
  /** Upper bounds of a histogram, in the metric's unit. */
  buckets?: readonly number[]
}

export const METRICS = {
  instar_requests_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Requests answered, by route and HTTP status. A stream that failed after its first byte counts with the status of its error, one whose client disconnected as 499.',
    labels: { route: { most: 64 }, dialect: [...DIALECT_NAMES, 'none'], status: { most: 48 } },
  },
  instar_request_errors_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Errors returned to clients, inside streams too, by code (docs/errors.md).',
    labels: { code: Object.keys(ERRORS) },
  },
  instar_request_duration_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: "Time from the request's headers to the last byte of its answer, generation requests only.",
    labels: { dialect: DIALECT_NAMES },
    buckets: REQUEST_SECONDS,
  },
  instar_requests_running: { type: 'gauge', of: 'gateway', help: 'Generation requests in progress.' },
  instar_request_body_bytes: {
    type: 'gauge',
    of: 'gateway',
    help: 'Memory of the bodies of all requests in progress, raw and parsed, in bytes; the limit is INSTAR_BODIES_LIMIT.',
  },
  instar_time_to_first_token_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: "Time from the request to the engine's first token of a candidate.",
    labels: { dialect: DIALECT_NAMES },
    buckets: FIRST_TOKEN_SECONDS,
  },
  instar_time_per_output_token_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: 'Mean time between two tokens of a candidate.',
    labels: { dialect: DIALECT_NAMES },
    buckets: PER_TOKEN_SECONDS,
  },
  instar_prompt_tokens_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Prompt tokens, counted once per request, not per candidate.',
    labels: { dialect: DIALECT_NAMES },
  },
  instar_generation_tokens_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Generated tokens of answers.',
    labels: { dialect: DIALECT_NAMES },
  },
  instar_background_candidates_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Background candidates by outcome: `sampled`; `given_up` because the model was never idle; `failed` because of an engine or the log.',
    labels: { outcome: ['sampled', 'given_up', 'failed'] },
  },
  instar_background_candidates_waiting: {
    type: 'gauge',
    of: 'gateway',
    help: 'Background candidates that wait for the model to be idle.',
  },
  instar_turns_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Turns written to the log, by status, kind, how the session was found, whether it is trainable, and the reason if not (`none` if it is).',
    labels: {
      status: ['complete', 'aborted'],
      kind: ['main', 'side'],
      label_source: ['header', 'agent', 'minted', 'answer', 'prompt', 'fingerprint'],
      trainable: ['yes', 'no'],
      reason: FEW,
    },
  },
  instar_answers_waiting: { type: 'gauge', of: 'gateway', help: 'Answers that wait for the log to be durable.' },
  instar_answers_lost_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Records that the log did not accept within the request time limit; the request failed.',
  },
  instar_engine_requests_running: { type: 'gauge', of: 'gateway', help: 'Sequences that the engine generates now.' },
  instar_engine_requests_waiting: { type: 'gauge', of: 'gateway', help: 'Sequences queued in the engine.' },
  instar_ready: { type: 'gauge', of: 'gateway', help: '1 if /health/ready is 200.' },
  instar_version_head: { type: 'gauge', of: 'gateway', help: 'Version number of the head.' },
  instar_version_served: {
    type: 'gauge',
    of: 'gateway',
    help: 'Version number that serves new requests.',
  },
  instar_learning_frozen: { type: 'gauge', of: 'gateway', help: '1 if learning is frozen.' },
  instar_adapters_loaded: { type: 'gauge', of: 'gateway', help: 'Adapters loaded in the engine.' },
  instar_sessions_known: { type: 'gauge', of: 'gateway', help: "Sessions in the gateway's index." },
  instar_turns_known: { type: 'gauge', of: 'gateway', help: "Turns in the gateway's index." },
  instar_records_unreadable_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Records of `turns` that cannot be decoded.',
  },
  instar_scores_total: {
    type: 'counter',
    of: 'scorer',
    help: "Scores read from the log: a turn's first one, or one revised by feedback. Every scorer reads all of them.",
    labels: { revision: ['first', 'revised'] },
  },
  instar_reward: {
    type: 'histogram',
    of: 'scorer',
    help: 'Rewards of the scores in `instar_scores_total`.',
    buckets: [-1, -0.5, -0.001, 0, 0.5, 1],
  },
  instar_turns_skipped_total: {
    type: 'counter',
    of: 'scorer',
    help: 'Turns skipped without a score, by reason: `overloaded` if the judge is too slow, `stale` if no batch would take the turn.',
    labels: { reason: FEW },
  },
  instar_sessions_closed_total: { type: 'counter', of: 'scorer', help: 'Idle sessions closed.' },
  instar_scorer_judging: { type: 'gauge', of: 'scorer', help: 'Turns being judged.' },
  instar_scorer_waiting: { type: 'gauge', of: 'scorer', help: 'Turns queued for a judge.' },
  instar_turns_unscored: {
    type: 'gauge',
    of: 'scorer',
    help: 'Turns that need a score and have none, in all partitions.',
  },
  instar_scorer_share: { type: 'gauge', of: 'scorer', help: 'Partitions of `turns` assigned to this process.' },
  instar_trainer_waits: {
    type: 'gauge',
    of: 'trainer',
    help: "1 for the trainer's current state.",
    labels: { for: TRAINER_WAITS },
  },
  instar_turns_pending: { type: 'gauge', of: 'trainer', help: 'Scored turns that are in no batch yet.' },
  instar_turns_held: {
    type: 'gauge',
    of: 'trainer',
    help: "Usable turns beyond their API key's share of a batch; they wait for turns of other keys.",
  },
  instar_batch_share: {
    type: 'gauge',
    of: 'trainer',
    help: 'Largest share of one API key (0 without keys), or of one subject, in the last batch.',
    labels: { of: ['key', 'subject'] },
  },
  instar_batches_sealed_total: { type: 'counter', of: 'trainer', help: 'Batches sealed.' },
  instar_turns_dropped_total: {
    type: 'counter',
    of: 'trainer',
    help: 'Scored turns dropped by a batch, by reason.',
    labels: { reason: FEW },
  },
  instar_updates_total: {
    type: 'counter',
    of: 'trainer',
    help: 'Updates by outcome.',
    labels: { outcome: ['computed', 'failed'] },
  },
  instar_update_duration_seconds: {
    type: 'histogram',
    of: 'trainer',
    help: 'Time to compute an update.',
    buckets: UPDATE_SECONDS,
  },
  instar_update_figure: {
    type: 'gauge',
    of: 'trainer',
    help: 'Figures of the last update: loss, gradNorm, clipFraction and the others in its record.',
    labels: { figure: FEW },
  },
  instar_publisher_waits: {
    type: 'gauge',
    of: 'publisher',
    help: "1 for the publisher's current state.",
    labels: { for: PUBLISHER_WAITS },
  },
  instar_verdicts_total: {
    type: 'counter',
    of: 'publisher',
    help: 'Candidates accepted or rejected, with the reason (`none` if accepted).',
    labels: { verdict: ['accepted', 'rejected'], reason: FEW },
  },
  instar_verdict_figure: {
    type: 'gauge',
    of: 'publisher',
    help: 'Figures of the last measured candidate: kl_parent, kl_base, entropy, length and the others in its record.',
    labels: { figure: FEW },
  },
  instar_projections_lag_seconds: {
    type: 'gauge',
    of: 'projections',
    help: 'Age of the oldest record that is not in PostgreSQL yet; 0 if all are.',
    labels: TOPIC,
  },
  instar_projections_behind_partitions: {
    type: 'gauge',
    of: 'projections',
    help: 'Partitions that are not completely in PostgreSQL yet.',
    labels: TOPIC,
  },
  instar_records_ignored_total: {
    type: 'counter',
    of: 'process',
    help: 'Records ignored since the service was ready, by reading service and reason.',
    labels: { service: SERVICE, ...TOPIC, why: FEW },
  },
  instar_log_append_duration_seconds: {
    type: 'histogram',
    of: 'process',
    help: 'Time until a batch of records is durable.',
    labels: TOPIC,
    buckets: SHORT_SECONDS,
  },
  instar_log_append_waiting: {
    type: 'gauge',
    of: 'process',
    help: 'Records passed to the log and not durable yet.',
    labels: TOPIC,
  },
  instar_log_append_failures_total: {
    type: 'counter',
    of: 'process',
    help: 'Batches that the log refused, by code (docs/errors.md); most are retried.',
    labels: { ...TOPIC, code: Object.keys(ERRORS) },
  },
} as const satisfies Record<string, MetricEntry>

export type MetricName = keyof typeof METRICS
type LabelsOf<N extends MetricName> = (typeof METRICS)[N] extends { labels: infer L } ? L : Record<never, string>
/** The labels of a metric; none where it has none. */
export type Labels<N extends MetricName> = Readonly<Record<keyof LabelsOf<N>, string>>
