import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { createMetrics } from './metrics.ts'
import { measuredLog } from './measured-log.ts'
import { METRICS, type MetricEntry } from './table.ts'

const ENTRIES: [string, MetricEntry][] = Object.entries(METRICS)
const LABELS = [
  'work',
  'route',
  'dialect',
  'status',
  'code',
  'kind',
  'label_source',
  'trainable',
  'reason',
  'revision',
  'for',
  'outcome',
  'figure',
  'verdict',
  'topic',
  'service',
  'why',
  'of',
  'state',
]

/** The values of Instar's metrics by `name{labels}`. */
const samplesOf = (text: string): Map<string, number> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line.startsWith('instar_'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )

test('labels are from a fixed list, and each has at most 128 values', () => {
  for (const [name, { labels = {} }] of ENTRIES) {
    for (const [label, values] of Object.entries(labels)) {
      ok(LABELS.includes(label), `${name} ${label}`)
      ok(('most' in values ? values.most : values.length) <= 128, `${name} ${label}`)
    }
  }
})

test('a metric has at most 500 series and one of other values', async () => {
  const metrics = createMetrics()
  for (let i = 0; i < 100_000; i += 1)
    metrics.count('instar_requests_total', { route: `/${i % 317}`, dialect: `d${i % 11}`, status: String(i % 97) })
  const samples = [...samplesOf(await metrics.text())].filter(([key]) => key.startsWith('instar_requests_total'))
  ok(samples.length <= 501, String(samples.length))
  equal(
    samples.reduce((sum, [, value]) => sum + value, 0),
    100_000,
  )
  ok(samplesOf(await metrics.text()).get('instar_requests_total{route="other",dialect="other",status="other"}')! > 0)
})

test('metric names follow the conventions of Prometheus', () => {
  for (const [name, { type, help, buckets }] of ENTRIES) {
    match(name, /^instar_[a-z][a-z0-9_]*$/)
    equal(name.endsWith('_total'), type === 'counter', name)
    equal(type === 'histogram', buckets !== undefined, name)
    deepEqual(
      [...(buckets ?? [])],
      [...(buckets ?? [])].toSorted((a, b) => a - b),
    )
    ok(help.length > 10 && help.endsWith('.'), name)
  }
})

test('label values that are not listed, or beyond the maximum number, are reported as other', async () => {
  const metrics = createMetrics()
  metrics.count('instar_updates_total', { outcome: 'exploded' })
  metrics.count('instar_updates_total', { outcome: 'computed' }, 3)
  for (let i = 0; i < 100; i += 1) metrics.count('instar_turns_skipped_total', { reason: `reason ${i}` })
  const samples = samplesOf(await metrics.text())
  equal(samples.get('instar_updates_total{outcome="other"}'), 1)
  equal(samples.get('instar_updates_total{outcome="computed"}'), 3)
  equal([...samples.keys()].filter((key) => key.startsWith('instar_turns_skipped_total')).length, 33)
  equal(samples.get('instar_turns_skipped_total{reason="other"}'), 68)
})

test('registered functions are called at each export; totals of several functions and counts are added', async () => {
  const metrics = createMetrics()
  let total = 2
  let waits = 'turns'
  const ignored = (service: string) => ({ service, topic: 'turns', why: 'repeat' })
  metrics.read('instar_records_ignored_total', () => [[ignored('scorer'), total]])
  metrics.read('instar_records_ignored_total', async () => [[ignored('trainer'), 10]])
  metrics.read('instar_trainer_waits', () => [[{ for: waits }, 1]])
  metrics.count('instar_records_ignored_total', ignored('scorer'), 5)
  equal(
    samplesOf(await metrics.text()).get('instar_records_ignored_total{service="scorer",topic="turns",why="repeat"}'),
    7,
  )
  total = 3
  waits = 'verdict'
  const samples = samplesOf(await metrics.text())
  equal(samples.get('instar_records_ignored_total{service="scorer",topic="turns",why="repeat"}'), 8)
  equal(samples.get('instar_records_ignored_total{service="trainer",topic="turns",why="repeat"}'), 10)
  equal(samples.get('instar_trainer_waits{for="verdict"}'), 1)
  equal(samples.has('instar_trainer_waits{for="turns"}'), false)
})

test('a function that was removed is called no more, and its samples are gone', async () => {
  const metrics = createMetrics()
  let calls = 0
  const remove = metrics.read('instar_trainer_waits', () => {
    calls += 1
    return [[{ for: 'turns' }, 1]]
  })
  metrics.read('instar_scorer_share', () => [[{}, 1]])
  equal(samplesOf(await metrics.text()).get('instar_trainer_waits{for="turns"}'), 1)
  remove()
  const samples = samplesOf(await metrics.text())
  equal(samples.has('instar_trainer_waits{for="turns"}'), false)
  equal(samples.get('instar_scorer_share'), 1)
  equal(calls, 1)
})

test('the samples of a function that fails are omitted; the others are exported', async () => {
  const metrics = createMetrics()
  metrics.read('instar_projections_lag_seconds', () => Promise.reject(new Error('away')))
  metrics.read('instar_turns_pending', () => [[{}, 4]])
  const text = await metrics.text()
  equal(samplesOf(text).get('instar_turns_pending'), 4)
  equal(text.includes('away'), false)
})

test('the text format is valid: help and type before samples, each name once, a final line feed', async () => {
  const metrics = createMetrics()
  metrics.count('instar_updates_total', { outcome: 'computed' })
  metrics.observe('instar_reward', {}, -0.25)
  const text = await metrics.text()
  ok(text.endsWith('\n'))
  const types = new Map<string, string>()
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line)
    if (type) {
      equal(types.has(type[1]!), false, line)
      types.set(type[1]!, type[2]!)
    } else if (!line.startsWith('# HELP ')) {
      const sample =
        /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?[\d.e+-]+|[Nn]a[Nn]|[+-]Inf)$/.exec(
          line,
        )
      ok(sample, line)
      ok(types.has(sample[1]!) || types.get(sample[1]!.replace(/_(bucket|sum|count)$/, '')) === 'histogram', line)
    }
  }
  equal(samplesOf(text).get('instar_reward_bucket{le="-0.001"}'), 1)
  equal(samplesOf(text).get('instar_reward_bucket{le="-0.5"}'), 0)
  equal(samplesOf(text).get('instar_reward_sum'), -0.25)
  for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_eventloop_lag_p99_seconds'])
    ok(types.has(name), name)
})

test('appends are measured; the other methods are those of the log', async () => {
  const metrics = createMetrics()
  const inner = openMemoryLog()
  const log = measuredLog(inner, metrics)
  const record = {
    topic: 'turns' as const,
    key: 'k',
    schema: 'SessionClosed.v1',
    payload: new Uint8Array(1),
    timestamp: 0,
  }
  const [position] = await log.append([record, record])
  equal(position?.topic, 'turns')
  equal((await log.at(position!))?.key, 'k')
  equal(log.partitions('turns'), inner.partitions('turns'))
  await log.close()
  await log.append([record]).then(
    () => ok(false),
    () => undefined,
  )
  const samples = samplesOf(await metrics.text())
  equal(samples.get('instar_log_append_duration_seconds_count{topic="turns"}'), 1)
  equal(samples.get('instar_log_append_waiting{topic="turns"}'), 0)
  equal([...samples].filter(([key]) => key.startsWith('instar_log_append_failures_total{topic="turns"')).length, 1)
})
