/** The metrics of the gateway, a part of the table. */
import { ERRORS } from '@instar/events/errors'
import { DIALECT_NAMES } from '@instar/events/records'
import { FEW, FIRST_TOKEN_SECONDS, PER_TOKEN_SECONDS, REQUEST_SECONDS, type MetricEntry } from './labels.ts'

export const GATEWAY_METRICS = {
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
  instar_connections: {
    type: 'gauge',
    of: 'gateway',
    help: 'Open connections; at most half of the files that the process may open, and 4,096.',
  },
  instar_connections_ended_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Connections that were closed for a new one at the limit: without a request, or with one that still arrived.',
  },
  instar_requests_running: { type: 'gauge', of: 'gateway', help: 'Generation requests in progress.' },
  instar_request_body_bytes: {
    type: 'gauge',
    of: 'gateway',
    help: 'Memory of the bodies of all requests in progress, raw and parsed, and of what is read of an engine’s answers, in bytes; the limit is INSTAR_BODIES_LIMIT.',
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
    help: 'Background candidates by outcome: `sampled`; `given_up` because the model had no time for them; `failed` because of an engine or the log.',
    labels: { outcome: ['sampled', 'given_up', 'failed'] },
  },
  instar_background_candidates_waiting: {
    type: 'gauge',
    of: 'gateway',
    help: 'Background candidates that wait for the model to be idle.',
  },
  instar_judgements_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Judgements of turns by the base weights (`INSTAR_JUDGE=self`) by outcome: `done`; `failed` because of the engine; `given_up` by the scorer before the model had time; `refused` because too many waited. `interrupted` counts each interruption by a request.',
    labels: { outcome: ['done', 'failed', 'given_up', 'refused', 'interrupted'] },
  },
  instar_judgements_waiting: {
    type: 'gauge',
    of: 'gateway',
    help: 'Judgements by the base weights that wait for the model to be idle, or run; at most 64.',
  },
  instar_work_beside_requests_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Judgements, groups of background candidates (one candidate at a time) and log-probs for the dashboard that began beside requests, since the model was not idle for `besideMs`.',
    labels: { work: ['judgement', 'candidates', 'logprobs'] },
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
  instar_feedback_running: {
    type: 'gauge',
    of: 'gateway',
    help: 'Feedback requests in progress; beyond the limit for answers that wait for the log they are refused.',
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
  instar_recent_records_bytes: {
    type: 'gauge',
    of: 'gateway',
    help: "Bytes of the newest turns' records that the gateway keeps in memory for the next requests of their sessions.",
  },
  instar_sessions_known: { type: 'gauge', of: 'gateway', help: "Sessions in the gateway's index." },
  instar_turns_known: { type: 'gauge', of: 'gateway', help: "Turns in the gateway's index." },
  instar_names_held: {
    type: 'gauge',
    of: 'gateway',
    help: 'Names of answers and prompts on the disk, by which conversations without a label are found beyond memory.',
  },
  instar_names_bytes: {
    type: 'gauge',
    of: 'gateway',
    help: 'Bytes of these names; the limit is INSTAR_RECOGNITION_BYTES.',
  },
  instar_names_expired_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Names that were given up for INSTAR_RECOGNITION_DAYS or INSTAR_RECOGNITION_BYTES.',
  },
  instar_name_reads_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Requests for which names on the disk were read; failed: late, or the table is damaged.',
    labels: { outcome: ['found', 'none', 'failed'] },
  },
  instar_records_unreadable_total: {
    type: 'counter',
    of: 'gateway',
    help: 'Records of `turns` that cannot be decoded.',
  },
} as const satisfies Record<string, MetricEntry>
