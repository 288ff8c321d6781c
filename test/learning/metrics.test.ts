/** The metrics of scorer, trainer and publisher on records that they read. */
import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import {
  ignored,
  COUNTED,
  encodeEvent,
  decodeRecord,
  type BatchSealed,
  type Event,
  type Logged,
  type FoldOutcome,
  type UpdateComputed,
  type UpdateFailed,
  type VersionPublished,
  type VersionRejected,
} from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { createMetrics, type Metrics } from '@instar/process'
import { recordPublisherMetrics as watchPublisher } from '../../services/publisher/src/shell/metrics.ts'
import { createScorer, scorerConfig } from '@instar/scorer'
import { recordTrainerMetrics as watchTrainer } from '../../services/trainer/src/shell/metrics.ts'
import { captured, type Said } from '../kit/scored-history.ts'

const valueOf = async (metrics: Metrics, name: string): Promise<number | undefined> => {
  const line = (await metrics.text()).split('\n').find((one) => one.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}
const logged = (event: Event): Logged => decodeRecord({ ...encodeEvent(event), partition: 0, offset: 0 })
const said = (role: Said['role'], content: string): Said => ({ role, content })

const SEALED: BatchSealed = {
  type: 'BatchSealed',
  prev: '',
  policy: 'policy',
  number: 1,
  parent: { version: 0, adapter: null, state: null },
  items: [],
  dropped: [
    { turn: 'a', reason: 'stale' },
    { turn: 'b', reason: 'aborted' },
  ],
  baselines: [],
  seed: 1,
  loss: 'hybrid',
  settings: {},
  at: 5000,
}
const COMPUTED: UpdateComputed = {
  type: 'UpdateComputed',
  prev: '',
  policy: 'policy',
  batch: 'b',
  number: 1,
  adapter: 'a',
  adapterBytes: 1,
  state: 's',
  stateBytes: 1,
  blobsAt: 1,
  fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
  figures: { loss: 0.25, gradNorm: 2 },
  startedAt: 6000,
  at: 10_000,
}
const FAILED: UpdateFailed = {
  type: 'UpdateFailed',
  prev: '',
  policy: 'policy',
  batch: 'b',
  number: 1,
  reason: 'no_signal',
  at: 1,
}
const PUBLISHED: VersionPublished = {
  type: 'VersionPublished',
  prev: '',
  policy: 'policy',
  number: 1,
  update: 'u',
  adapter: 'a',
  adapterBytes: 1,
  state: 's',
  blobsAt: 1,
  parent: 0,
  why: 'update',
  source: null,
  figures: { kl_parent: 0.01 },
  at: 1,
}
const REJECTED: VersionRejected = {
  type: 'VersionRejected',
  prev: '',
  policy: 'policy',
  update: 'u',
  adapter: 'a',
  parent: 0,
  reason: 'kl_base',
  figures: { kl_parent: 0.02 },
  evidence: [],
  at: 1,
}

test('the trainer reports pending turns, batches, dropped turns, updates and the figures of the last update', async () => {
  const metrics = createMetrics()
  const now: Parameters<typeof watchTrainer>[2] extends () => infer N ? N : never = {
    waits: 'turns',
    pending: 7,
    held: 3,
    needed: 4,
    episodes: { waiting: 5, beyond: 2 },
    shares: { key: 0.5, subject: 0.25 },
    figures: null,
    update: null,
  }
  let counted = 0
  const read = watchTrainer(metrics, 'policy', () => {
    counted += 1
    return now
  })
  const records: [Event, FoldOutcome | null][] = [
    [SEALED, COUNTED],
    [COMPUTED, COUNTED],
    [FAILED, COUNTED],
    [{ ...COMPUTED, number: 9 }, ignored('stale')],
    [{ ...SEALED, policy: 'policy~branch' }, null],
  ]
  for (const [event, outcome] of records) read(logged(event), outcome)
  equal(counted, 0, 'turns and episodes are counted when metrics are read, not for each record')
  equal(await valueOf(metrics, 'instar_batches_sealed_total'), 1)
  equal(await valueOf(metrics, 'instar_turns_dropped_total{reason="stale"}'), 1)
  equal(await valueOf(metrics, 'instar_updates_total{outcome="computed"}'), 1)
  equal(await valueOf(metrics, 'instar_updates_total{outcome="failed"}'), 1)
  equal(await valueOf(metrics, 'instar_update_duration_seconds_sum'), 4)
  equal(await valueOf(metrics, 'instar_update_figure{figure="loss"}'), 0.25)
  equal(await valueOf(metrics, 'instar_records_ignored_total{service="trainer",topic="updates",why="stale"}'), 1)
  equal(await valueOf(metrics, 'instar_turns_pending'), 7)
  equal(await valueOf(metrics, 'instar_turns_held'), 3)
  equal(await valueOf(metrics, 'instar_turns_needed'), 4)
  equal(await valueOf(metrics, 'instar_episodes{state="waiting"}'), 5)
  equal(await valueOf(metrics, 'instar_episodes{state="beyond"}'), 2)
  equal(await valueOf(metrics, 'instar_batch_share{of="key"}'), 0.5)
  equal(await valueOf(metrics, 'instar_batch_share{of="subject"}'), 0.25)
  equal(await valueOf(metrics, 'instar_trainer_waits{for="turns"}'), 1)
  now.waits = 'log_unavailable'
  now.figures = { loss: 0.125 }
  equal(await valueOf(metrics, 'instar_trainer_waits{for="turns"}'), 0)
  equal(await valueOf(metrics, 'instar_trainer_waits{for="other"}'), 1)
  equal(await valueOf(metrics, 'instar_update_figure{figure="loss"}'), 0.125)
})

test('the publisher reports verdicts by reason and the figures of the last candidate', async () => {
  const metrics = createMetrics()
  const now = { policy: 'policy', waits: 'updates', rejectionsInARow: 2, probes: 96 }
  let asking: { asked: number; of: number; kept: number } | null = { asked: 64, of: 475, kept: 57 }
  const read = watchPublisher(metrics, () => ({ ...now, asking }))
  const records: [Event, FoldOutcome | null][] = [
    [PUBLISHED, COUNTED],
    [REJECTED, COUNTED],
    [{ ...PUBLISHED, policy: 'policy~branch' }, COUNTED],
    [PUBLISHED, ignored('stale')],
  ]
  for (const [event, outcome] of records) read(logged(event), outcome)
  equal(await valueOf(metrics, 'instar_rejections_in_a_row'), 2)
  equal(await valueOf(metrics, 'instar_gate_probes'), 96)
  equal(await valueOf(metrics, 'instar_base_probes{figure="asked"}'), 64)
  equal(await valueOf(metrics, 'instar_base_probes{figure="of"}'), 475)
  equal(await valueOf(metrics, 'instar_base_probes{figure="kept"}'), 57)
  asking = null
  equal(await valueOf(metrics, 'instar_base_probes{figure="of"}'), 0)
  equal(await valueOf(metrics, 'instar_verdicts_total{verdict="accepted",reason="none"}'), 1)
  equal(await valueOf(metrics, 'instar_verdicts_total{verdict="rejected",reason="kl_base"}'), 1)
  equal(await valueOf(metrics, 'instar_verdict_figure{figure="kl_parent"}'), 0.02)
  equal(await valueOf(metrics, 'instar_records_ignored_total{service="publisher",topic="weights",why="stale"}'), 1)
  equal(await valueOf(metrics, 'instar_publisher_waits{for="updates"}'), 1)
})

test('the scorer reports scores, rewards and repeats of records after its start only', async () => {
  const log = openMemoryLog()
  const append = (event: Event) =>
    log.append(
      [encodeEvent(event)].map(({ topic, key, schema, payload, timestamp }) => ({
        topic,
        key,
        schema,
        payload,
        timestamp,
      })),
    )
  const messages = [said('user', 'How tall is it?')]
  const first = captured({ session: 's', messages, answer: 'It is 10 m tall.', at: 1, name: 't0' })
  const second = captured({
    session: 's',
    messages: [...messages, said('assistant', 'It is 10 m tall.'), said('user', 'Thanks, that is perfect!')],
    answer: 'Good.',
    at: 2,
    name: 't1',
  })
  await append(first)
  await append(first)
  const metrics = createMetrics()
  const scored = Promise.withResolvers<void>()
  const scorer = createScorer(
    {
      log,
      metrics,
      now: () => 1000,
      onFatal: scored.reject,
      after: () => () => undefined,
      onScored: () => scored.resolve(),
    },
    scorerConfig.parse({}),
  )
  await scorer.start()
  await append(second)
  await append(second)
  await scored.promise
  await scorer.settled()
  equal(await valueOf(metrics, 'instar_scores_total{revision="first"}'), 1)
  equal(await valueOf(metrics, 'instar_reward_bucket{le="0"}'), 0)
  equal(await valueOf(metrics, 'instar_reward_count'), 1)
  equal(await valueOf(metrics, 'instar_records_ignored_total{service="scorer",topic="turns",why="repeat"}'), 1)
  equal(await valueOf(metrics, 'instar_scorer_share'), log.partitions('turns'))
  equal(await valueOf(metrics, 'instar_scorer_waiting'), 0)
  await scorer.stop()
})
