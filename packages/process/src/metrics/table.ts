/**
 * All metrics of Instar processes; docs/metrics.md is generated from this table. Each label has listed values or a maximum
 * number of values; further values are reported as `other`. Texts, sessions, turns, users, keys and model names are never
 * labels.
 */
import { ERRORS } from '@instar/events/errors'
import { GATEWAY_METRICS } from './gateway-table.ts'
import {
  CHECKPOINTED,
  TOPIC,
  SERVICE,
  FEW,
  SHORT_SECONDS,
  UPDATE_SECONDS,
  TRAINER_WAITS,
  PUBLISHER_WAITS,
  type MetricEntry,
} from './labels.ts'

export type { MetricEntry }

export const METRICS = {
  ...GATEWAY_METRICS,
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
    help: 'Turns skipped without a score, by reason: `overloaded` if the judge is too slow, `stale` if no batch would take the turn, `surplus` if enough scored turns waited for a batch and no judge was asked, `duplicate`, `asked_for_praise` and `degenerate` for praise that must not count, `unagreed` for a score that rests on a value that too few people claim, `asked_alone` for one of many by one subject or API key on a question that nobody else asks, `contradicted` for feedback without words against what the person said before of answers of that kind.',
    labels: { reason: FEW },
  },
  instar_judge_replaced: {
    type: 'gauge',
    of: 'scorer',
    help: "1 while the reactions judge judges in a model's place, for all API keys or for some, since the model `failed` or `drifted` from what people say.",
    labels: { why: ['failed', 'drifted'] },
  },
  instar_value_hints_total: {
    type: 'counter',
    of: 'scorer',
    help: 'Scores that rest on a value that a person called right ("the right answer is 14"): `agreed` if enough independent people claimed it, else `withheld`, reward and hint.',
    labels: { outcome: ['agreed', 'withheld'] },
  },
  instar_scored_digests: {
    type: 'gauge',
    of: 'scorer',
    help: 'Different sets of request, answer and reaction that were scored lately, held to find repetitions; at most 4,096 for each policy.',
  },
  instar_scored_questions: {
    type: 'gauge',
    of: 'scorer',
    help: 'Different questions that were scored in the last 30 days, held to find those that one person alone asks; at most 4,096 for each policy.',
  },
  instar_scored_people: {
    type: 'gauge',
    of: 'scorer',
    help: 'People whose opinions are held, 64 of each, to find those that contradict the others; at most 4,096 for each policy.',
  },
  instar_value_claims: {
    type: 'gauge',
    of: 'scorer',
    help: 'Questions of which people claimed a value; at most 4,096 for each policy.',
  },
  instar_sessions_closed_total: { type: 'counter', of: 'scorer', help: 'Idle sessions closed.' },
  instar_scorer_judging: { type: 'gauge', of: 'scorer', help: 'Turns being judged.' },
  instar_scorer_waiting: { type: 'gauge', of: 'scorer', help: 'Turns queued for a judge.' },
  instar_scorer_held: {
    type: 'gauge',
    of: 'scorer',
    help: 'Those of them about which no judge is asked now, because enough scored turns wait for a batch (`judge.waitingBatches`).',
  },
  instar_scored_turns_waiting: {
    type: 'gauge',
    of: 'scorer',
    help: 'Scored turns of the last ten minutes that no batch has taken, as this process has read them since its start, and turns being judged.',
  },
  instar_turns_unscored: {
    type: 'gauge',
    of: 'scorer',
    help: 'Turns that need a score and have none, in the partitions of `turns` that this process has read.',
  },
  instar_scorer_episodes_beginning: {
    type: 'gauge',
    of: 'scorer',
    help: 'Episodes that run and whose beginning is not on `scores` yet: those of before all readers support the record, and others for a moment.',
  },
  instar_scorer_episodes_ending: {
    type: 'gauge',
    of: 'scorer',
    help: 'Episodes that ended and whose end is not on `scores` yet: those of before all readers support the record, and others for a moment.',
  },
  instar_scorer_share: {
    type: 'gauge',
    of: 'scorer',
    help: 'Partitions of `turns` assigned to this process that it has read to their ends as of then, and works on.',
  },
  instar_scorer_catching_up: {
    type: 'gauge',
    of: 'scorer',
    help: 'Partitions of `turns` assigned to this process whose earlier records it still reads; nobody works on them.',
  },
  instar_trainer_waits: {
    type: 'gauge',
    of: 'trainer',
    help: "1 for the trainer's current state.",
    labels: { for: TRAINER_WAITS },
  },
  instar_update_progress: {
    type: 'gauge',
    of: 'trainer',
    help: 'Part of the update being computed that is done, 0…1; 0 between updates.',
  },
  instar_update_remaining_seconds: {
    type: 'gauge',
    of: 'trainer',
    help: 'Estimated time until the update being computed is done; 0 between updates.',
  },
  instar_turns_pending: { type: 'gauge', of: 'trainer', help: 'Scored turns that are in no batch yet.' },
  instar_turns_needed: {
    type: 'gauge',
    of: 'trainer',
    help: 'Usable scored turns that the next batch still lacks; 0 if it has enough.',
  },
  instar_turns_held: {
    type: 'gauge',
    of: 'trainer',
    help: "Usable turns beyond their API key's share of a batch; they wait for turns of other keys.",
  },
  instar_episodes: {
    type: 'gauge',
    of: 'trainer',
    help: 'Episodes that run or wait for others of their task, and those that are over, beyond the 512 groups that a decision examines.',
    labels: { state: ['waiting', 'beyond'] },
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
    help: 'Figures of the last update: loss, gradNorm, clipFraction, the tokens of its passes (forwardPromptTokens, …) and the others in its record.',
    labels: { figure: { most: 48 } },
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
  instar_rejections_in_a_row: {
    type: 'gauge',
    of: 'publisher',
    help: 'Measured candidates rejected since the last accepted one or the last move of the head; 3 and more need attention.',
  },
  instar_gate_probes: {
    type: 'gauge',
    of: 'publisher',
    help: 'Probes of the line that the gate asks each candidate; below 32 it hardly notices what the model forgets.',
  },
  instar_base_probes: {
    type: 'gauge',
    of: 'publisher',
    help: 'While a new line starts: probes that the base has been asked, of how many at most, and how many are kept. 0 otherwise.',
    labels: { figure: ['asked', 'of', 'kept'] },
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
  instar_service_lag_seconds: {
    type: 'gauge',
    of: 'process',
    help: 'Age of the oldest record that the service has not read yet; 0 if it has read all. That of the projections is `instar_projections_lag_seconds`.',
    labels: { service: SERVICE },
  },
  instar_other_builds_state_bytes: {
    type: 'gauge',
    of: 'process',
    help: 'Bytes of stored states that builds with another state wrote, which are removed a day after the last use, without names of answers beside them.',
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
  instar_checkpoints_total: {
    type: 'counter',
    of: 'process',
    help: 'Checkpoints that were due (INSTAR_CHECKPOINT_TURNS, INSTAR_CHECKPOINT_HOURS), by state: `written`, `unchanged` since the one before, `too_large` for INSTAR_CHECKPOINTS_BYTES, or `failed`. After the last three the next attempt is 10 minutes later, or twice as long as the one before, at most a day.',
    labels: { state: CHECKPOINTED, outcome: ['written', 'unchanged', 'too_large', 'failed'] },
  },
  instar_checkpoint_bytes: {
    type: 'gauge',
    of: 'process',
    help: 'Bytes of the file of the newest checkpoint, by state, where the process writes them.',
    labels: { state: CHECKPOINTED },
  },
  instar_checkpoint_age_seconds: {
    type: 'gauge',
    of: 'process',
    help: 'Age of the newest checkpoint, by state, where the process writes them.',
    labels: { state: CHECKPOINTED },
  },
  instar_archive_objects_total: {
    type: 'counter',
    of: 'process',
    help: 'Objects of the archive (INSTAR_ARCHIVE) that were read for records that were cut from the log, or could not be (`failed`).',
    labels: { outcome: ['read', 'failed'] },
  },
  instar_archive_kept_bytes: {
    type: 'gauge',
    of: 'process',
    help: 'Bytes of objects of the archive that are kept in memory for the next read; at most 64 MiB of each log that a process has open.',
  },
  instar_log_cut_refusals_total: {
    type: 'counter',
    of: 'process',
    help: 'Reads that ended with `log_cut`: of records that were cut from the log, where INSTAR_ARCHIVE is not set. At a gateway a conversation whose earlier turn was cut counts as unknown.',
  },
  instar_log_dead_letters: {
    type: 'gauge',
    of: 'process',
    help: 'Dead letters on Kafka (copies of records that cannot be read) whose positions are in memory; at most 65,536 of each partition.',
    labels: TOPIC,
  },
} as const satisfies Record<string, MetricEntry>

export type MetricName = keyof typeof METRICS
type LabelsOf<N extends MetricName> = (typeof METRICS)[N] extends { labels: infer L } ? L : Record<never, string>
/** The labels of a metric. */
export type Labels<N extends MetricName> = Readonly<Record<keyof LabelsOf<N>, string>>
