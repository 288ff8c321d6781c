import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { watchProjections } from './metrics.ts'
import { partitionKey, type Mark } from './sink.ts'

test('the metrics give the age of the oldest record that is not in PostgreSQL and the number of partitions that lag', async () => {
  const log = openMemoryLog()
  const marks = new Map<string, Mark>()
  const metrics = createMetrics()
  const projections: { marks: () => ReadonlyMap<string, Mark> | null } = { marks: () => null }
  watchProjections(
    metrics,
    log,
    {
      ...projections,
      marks: () => projections.marks(),
      caughtUp: () => Promise.resolve(),
      stop: () => Promise.resolve(),
      done: Promise.resolve(),
    },
    () => 100_000,
  )
  const read = async (name: string): Promise<string | undefined> =>
    (await metrics.text())
      .split('\n')
      .find((line) => line.startsWith(`${name}{topic="turns"}`))
      ?.split(' ')[1]
  equal(await read('instar_projections_lag_seconds'), undefined)

  projections.marks = () => marks
  equal(await read('instar_projections_lag_seconds'), '0')
  const put = (key: string, timestamp: number) =>
    log.append([{ topic: 'turns', key, schema: 'SessionClosed.v1', payload: new Uint8Array(1), timestamp }])
  const first = (await put('a', 10_000))[0]!
  const second = (await put('a', 70_000))[0]!
  let other = (await put('b0', 40_000))[0]!
  for (let i = 1; other.partition === first.partition; i += 1) other = (await put(`b${i}`, 40_000))[0]!
  equal(await read('instar_projections_lag_seconds'), '90')
  equal(await read('instar_projections_behind_partitions'), '2')
  marks.set(partitionKey(other), { next: other.offset + 1, last: '' })
  marks.set(partitionKey(first), { next: first.offset + 1, last: '' })
  equal(await read('instar_projections_behind_partitions'), '1')
  const lag = Number(await read('instar_projections_lag_seconds'))
  equal(lag === 30 || lag === 60, true, String(lag))
  const ends = await log.ends(['turns'])
  for (const [partition, next] of Object.entries(ends.turns ?? {}))
    marks.set(partitionKey({ topic: 'turns', partition: Number(partition) }), { next, last: '' })
  equal(second.partition, first.partition)
  equal(await read('instar_projections_lag_seconds'), '0')
  equal(await read('instar_projections_behind_partitions'), '0')
})
