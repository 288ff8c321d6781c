import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog, type Offsets } from '@instar/log'
import { lineStarted, records, T0 } from '../../../../test/kit/projected-history.ts'
import { watchLag } from './lag.ts'
import { createMetrics } from './metrics.ts'

test('the lag of a service is the age of the oldest record that it has not read, and absent while it does not read', async () => {
  const log = openMemoryLog()
  const metrics = createMetrics()
  let [now, read] = [T0 + 60_000, null as Offsets | null]
  watchLag(metrics, log, { service: 'trainer', topics: ['weights'], read: () => read, now: () => now })
  const lag = async (): Promise<unknown> =>
    (await metrics.allValues())
      .find(({ name }) => name === 'instar_service_lag_seconds')
      ?.values.map(({ labels, value }) => [labels['service'], value]) ?? []
  deepEqual(await lag(), [])
  await log.append(records([lineStarted('policy', { at: T0 })]))
  const [[partition]] = Object.entries((await log.ends(['weights'])).weights!).filter(([, end]) => end > 0) as [
    [string, number],
  ]
  read = {}
  const written = await oldest(log, Number(partition))
  deepEqual(await lag(), [['trainer', Math.max(0, now - written) / 1000]])
  now += 1_000
  read = { weights: { [partition]: 1 } }
  deepEqual(await lag(), [['trainer', 0]])
  read = null
  now += 1_000
  deepEqual(await lag(), [], 'unknown, not 0')
})

test('partitions that a service does not read count for nothing', async () => {
  const log = openMemoryLog()
  const metrics = createMetrics()
  await log.append(records([lineStarted('policy', { at: T0 })]))
  let mine = false
  let now = T0 + 60_000
  watchLag(metrics, log, {
    service: 'scorer',
    topics: ['weights'],
    read: () => ({}),
    reads: () => mine,
    now: () => now,
  })
  const lag = async (): Promise<number | undefined> =>
    (await metrics.allValues()).find(({ name }) => name === 'instar_service_lag_seconds')?.values[0]?.value
  deepEqual(await lag(), 0)
  mine = true
  now += 1_000
  deepEqual((await lag())! > 0, true)
})

const oldest = async (log: ReturnType<typeof openMemoryLog>, partition: number): Promise<number> => {
  for await (const [record] of log.read('weights', { partition, maxBatch: 1 })) if (record) return record.timestamp
  return Number.NaN
}
