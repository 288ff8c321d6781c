/**
 * Every metric that a process of ours tells: docs/metrics.md is written from it. Labels are few by
 * construction: each has its values listed, or a bound, and what comes beyond is told as `other`. Nothing
 * that a person wrote or chose (text, session, turn, user, key, model name) is a label.
 */
import { ERRORS } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { DIALECT_NAMES } from '@instar/events/records'

/** The values that a label may have, or how many different ones are told apart. */
export type LabelValues = readonly string[] | { readonly most: number }

export type MetricEntry = {
  type: 'counter' | 'gauge' | 'histogram'
  /** The service that tells it; `process`: every one. */
  of: 'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections' | 'process'
  help: string
  labels?: Readonly<Record<string, LabelValues>>
  /** Upper bounds of a histogram, in the metric's unit. */
  buckets?: readonly number[]
}

const TOPIC = { topic: TOPICS } as const
const SERVICE = ['gateway', 'scorer', 'trainer', 'publisher'] as const
/** Codes, and reasons that records name: few, but not all of them ours to list. */
const FEW = { most: 32 } as const

const SHORT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const FIRST_TOKEN_SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
]
const PER_TOKEN_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const UPDATE_SECONDS = [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200]

export const TRAINER_WAITS = [
  'starting',
  'standby',
  'no_line',
  'not_live',
  'verdict',
  'frozen',
  'turns',
  'share',
  'append',
  'compute',
  'other',
] as const
export const PUBLISHER_WAITS = [
  'starting',
  'standby',
  'updates',
  'frozen',
  'not_live',
  'start',
  'evaluate',
  'append',
  'other',
] as const

export const METRICS = {
  instar_requests_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Requests that were answered, by route and HTTP status. A stream that failed after its first byte counts with the status of its fault, one whose client left as 499.',
    labels: { route: { most: 64 }, dialect: [...DIALECT_NAMES, 'none'], status: { most: 48 } },
  },
  instar_request_errors_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Faults that a client was told, by code (docs/errors.md), inside streams too.',
    labels: { code: Object.keys(ERRORS) },
  },
  instar_request_duration_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: "From the request's headers to the last byte of its answer, requests for an answer only.",
    labels: { dialect: DIALECT_NAMES },
    buckets: REQUEST_SECONDS,
  },
  instar_requests_running: { type: 'gauge', of: 'gateway', help: 'Requests for an answer that are being answered.' },
  instar_request_body_bytes: {
    type: 'gauge',
    of: 'gateway',
    help: 'Bytes of memory that the bodies of all requests that are being answered take, as they came and parsed, of INSTAR_BODIES_LIMIT.',
  },
  instar_time_to_first_token_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: "From the request to the engine's first token of a candidate.",
    labels: { dialect: DIALECT_NAMES },
    buckets: FIRST_TOKEN_SECONDS,
  },
  instar_time_per_output_token_seconds: {
    type: 'histogram',
    of: 'gateway',
    help: 'Mean time from one token of a candidate to its next.',
    labels: { dialect: DIALECT_NAMES },
    buckets: PER_TOKEN_SECONDS,
  },
  instar_prompt_tokens_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Tokens of prompts, once for each request however many candidates it asked for.',
    labels: { dialect: DIALECT_NAMES },
  },
  instar_generation_tokens_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Tokens of answers.',
    labels: { dialect: DIALECT_NAMES },
  },
  instar_background_candidates_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Candidates sampled while nobody waited for the model, and those that were given up: `given_up` for want of a quiet moment, `failed` by an engine or the log.',
    labels: { outcome: ['sampled', 'given_up', 'failed'] },
  },
  instar_background_candidates_waiting: {
    type: 'gauge',
    of: 'gateway',
    help: 'Candidates that are to be sampled when nobody waits for the model.',
  },
  instar_turns_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Turns put on the log: whole or cut, main or side, how the session was found, whether it may be trained on and if not why (`none` where it may).',
    labels: {
      status: ['complete', 'aborted'],
      kind: ['main', 'side'],
      label_source: ['header', 'agent', 'minted', 'answer', 'prompt', 'fingerprint'],
      trainable: ['yes', 'no'],
      reason: FEW,
    },
  },
  instar_answers_waiting: { type: 'gauge', of: 'gateway', help: 'Answers that wait for the log.' },
  instar_answers_lost_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Records that the log did not take within the patience of a request, which then failed.',
  },
  instar_engine_requests_running: { type: 'gauge', of: 'gateway', help: 'Sequences that the engine is generating.' },
  instar_engine_requests_waiting: { type: 'gauge', of: 'gateway', help: 'Sequences that wait for room in the engine.' },
  instar_ready: { type: 'gauge', of: 'gateway', help: '1 when /health/ready is 200.' },
  instar_version_head: { type: 'gauge', of: 'gateway', help: "Number of the version that the line's head points to." },
  instar_version_served: {
    type: 'gauge',
    of: 'gateway',
    help: 'Number of the version that new requests are answered with.',
  },
  instar_learning_frozen: { type: 'gauge', of: 'gateway', help: '1 while learning is frozen.' },
  instar_adapters_loaded: { type: 'gauge', of: 'gateway', help: 'Adapters that the engine holds.' },
  instar_sessions_known: { type: 'gauge', of: 'gateway', help: "Sessions in the gateway's index." },
  instar_turns_known: { type: 'gauge', of: 'gateway', help: "Turns in the gateway's index." },
  instar_records_unreadable_total: { type: 'counter', of: 'gateway', help: 'Records of `turns` that nobody can read.' },
  instar_scores_total: {
    type: 'counter',
    of: 'scorer',
    help: 'Scores read back from the log: the first of a turn, or one revised by feedback. Every scorer reads all of them.',
    labels: { revision: ['first', 'revised'] },
  },
  instar_reward: {
    type: 'histogram',
    of: 'scorer',
    help: 'Rewards of those scores.',
    buckets: [-1, -0.5, -0.001, 0, 0.5, 1],
  },
  instar_turns_skipped_total: {
    type: 'counter',
    of: 'scorer',
    help: 'Turns that got no score, by reason: `overloaded` are those that a slow judge would never have come to, `stale` those that no batch would have taken.',
    labels: { reason: FEW },
  },
  instar_sessions_closed_total: { type: 'counter', of: 'scorer', help: 'Sessions that went quiet and were closed.' },
  instar_scorer_judging: { type: 'gauge', of: 'scorer', help: 'Turns that judges are looking at.' },
  instar_scorer_waiting: { type: 'gauge', of: 'scorer', help: 'Turns that wait for a judge.' },
  instar_turns_unscored: {
    type: 'gauge',
    of: 'scorer',
    help: "Turns that need a score and have none, this process's or others'.",
  },
  instar_scorer_share: { type: 'gauge', of: 'scorer', help: "Partitions of `turns` that are this process's to score." },
  instar_trainer_waits: {
    type: 'gauge',
    of: 'trainer',
    help: '1 for what the trainer waits for or does.',
    labels: { for: TRAINER_WAITS },
  },
  instar_turns_pending: { type: 'gauge', of: 'trainer', help: 'Scored turns that no batch has taken yet.' },
  instar_turns_held: {
    type: 'gauge',
    of: 'trainer',
    help: 'Usable turns beyond the share that their API key may have of a batch; they wait for turns of other keys.',
  },
  instar_batch_share: {
    type: 'gauge',
    of: 'trainer',
    help: 'Largest share of the last batch that came from one API key (0 without keys), or from one subject.',
    labels: { of: ['key', 'subject'] },
  },
  instar_batches_sealed_total: { type: 'counter', of: 'trainer', help: 'Batches sealed.' },
  instar_turns_dropped_total: {
    type: 'counter',
    of: 'trainer',
    help: 'Scored turns that a batch dropped, by reason.',
    labels: { reason: FEW },
  },
  instar_updates_total: {
    type: 'counter',
    of: 'trainer',
    help: 'Updates, by how they ended.',
    labels: { outcome: ['computed', 'failed'] },
  },
  instar_update_duration_seconds: {
    type: 'histogram',
    of: 'trainer',
    help: 'Time that an update took to compute.',
    buckets: UPDATE_SECONDS,
  },
  instar_update_figure: {
    type: 'gauge',
    of: 'trainer',
    help: 'Figures of the last update: loss, gradNorm, clipFraction and the others that its record holds.',
    labels: { figure: FEW },
  },
  instar_publisher_waits: {
    type: 'gauge',
    of: 'publisher',
    help: '1 for what the publisher waits for or does.',
    labels: { for: PUBLISHER_WAITS },
  },
  instar_verdicts_total: {
    type: 'counter',
    of: 'publisher',
    help: 'Candidates accepted, or rejected with the reason (`none` where accepted).',
    labels: { verdict: ['accepted', 'rejected'], reason: FEW },
  },
  instar_verdict_figure: {
    type: 'gauge',
    of: 'publisher',
    help: 'Figures of the last candidate that was measured: kl_parent, kl_base, entropy, length and the others that its record holds.',
    labels: { figure: FEW },
  },
  instar_projections_lag_seconds: {
    type: 'gauge',
    of: 'projections',
    help: 'Age of the oldest record that PostgreSQL does not hold yet; 0 when it holds all.',
    labels: TOPIC,
  },
  instar_projections_behind_partitions: {
    type: 'gauge',
    of: 'projections',
    help: 'Partitions of which PostgreSQL does not hold everything yet.',
    labels: TOPIC,
  },
  instar_records_ignored_total: {
    type: 'counter',
    of: 'process',
    help: 'Records that did not count since the service was ready, by who read them and why.',
    labels: { service: SERVICE, ...TOPIC, why: FEW },
  },
  instar_log_append_duration_seconds: {
    type: 'histogram',
    of: 'process',
    help: 'Time until a batch of records was durable.',
    labels: TOPIC,
    buckets: SHORT_SECONDS,
  },
  instar_log_append_waiting: {
    type: 'gauge',
    of: 'process',
    help: 'Records handed to the log and not durable yet.',
    labels: TOPIC,
  },
  instar_log_append_failures_total: {
    type: 'counter',
    of: 'process',
    help: 'Batches that the log refused, by code (docs/errors.md); most are tried again.',
    labels: { ...TOPIC, code: Object.keys(ERRORS) },
  },
} as const satisfies Record<string, MetricEntry>

export type MetricName = keyof typeof METRICS
type LabelsOf<N extends MetricName> = (typeof METRICS)[N] extends { labels: infer L } ? L : Record<never, string>
/** The labels of a metric; none where it has none. */
export type Labels<N extends MetricName> = Readonly<Record<keyof LabelsOf<N>, string>>
