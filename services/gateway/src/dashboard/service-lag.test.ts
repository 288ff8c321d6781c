import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog, type EventLog, type Offsets } from '@instar/log'
import { createMetrics } from '@instar/process'
import type { ReadModel } from '@instar/projections/read-model'
import { startRig } from '../../../../test/kit/gateway.ts'
import { lineStarted, records, T0 } from '../../../../test/kit/projected-history.ts'
import { createLags } from './service-lag.ts'

type Found = Awaited<ReturnType<ReadModel['inspect']>>
const found = (marks: Found['marks'], state: Found['migrations']['state'] = 'current'): Found => ({
  version: 'PostgreSQL 18',
  migrations: { state, applied: 8, ours: 8 },
  marks,
})

test('a gateway alone knows its own lag; that of services in other processes is unknown, not 0', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  const { lag } = (await (await rig.fetch('/v1/dashboard/now')).json()) as { lag: unknown }
  assert.deepEqual(lag, { gateway: 0, scorer: null, trainer: null, publisher: null, projections: null })
})

test('projections in another process are as far as the positions that they store in PostgreSQL', async () => {
  const log = openMemoryLog()
  await log.append(records([lineStarted('policy', { at: T0 })]))
  const [[partition]] = Object.entries((await log.ends(['weights'])).weights!).filter(([, end]) => end > 0) as [
    [string, number],
  ]
  let [now, next, away] = [Date.now() + 30_000, 0, false]
  const inspect = async (): Promise<Found> => {
    if (away) throw new Error('away')
    return found([{ topic: 'weights', partition: Number(partition), next, last: '', current: true }])
  }
  const lags = createLags({ log, readModel: { inspect }, policy: 'policy', now: () => now })
  const metrics = createMetrics()
  const lag = async (): Promise<number | null> => (await lags(await metrics.allValues())).projections
  assert.ok((await lag())! > 20)
  next = 1
  assert.ok((await lag())! > 20, 'positions are read every five seconds')
  now += 5_000
  assert.equal(await lag(), 0)
  away = true
  now += 5_000
  assert.equal(await lag(), null)
  const older = createLags({
    log,
    readModel: { inspect: async () => found([], 'older') },
    policy: 'policy',
    now: () => now,
  })
  assert.equal((await older(await metrics.allValues())).projections, null)
})

test('the metrics of services of this process are used first', async () => {
  const metrics = createMetrics()
  metrics.read('instar_service_lag_seconds', () => [
    [{ service: 'scorer' }, 0],
    [{ service: 'trainer' }, 2.5],
  ])
  metrics.read('instar_projections_lag_seconds', () => [
    [{ topic: 'turns' }, 0],
    [{ topic: 'scores' }, 1.5],
  ])
  const lags = createLags({ log: openMemoryLog(), readModel: null, policy: 'policy', now: () => T0 })
  assert.deepEqual(await lags(await metrics.allValues()), {
    gateway: null,
    scorer: 0,
    trainer: 2.5,
    publisher: null,
    projections: 1.5,
  })
})

test('services of other processes are as far as they have committed; unknown where they have not, and no page waits for a log that is away', async () => {
  const memory = openMemoryLog()
  await memory.append(records([lineStarted('policy', { at: T0 })]))
  const [[partition]] = Object.entries((await memory.ends(['weights'])).weights!).filter(([, end]) => end > 0) as [
    [string, number],
  ]
  const groups = new Map<string, Offsets>([['trainer.policy', { weights: { [partition]: 0 } }]])
  let [now, asked, away] = [Date.now() + 30_000, 0, false]
  const log: Pick<EventLog, 'read' | 'ends' | 'committed'> = {
    read: (...args) => memory.read(...args),
    ends: (topics) => memory.ends(topics),
    committed: async (group) => {
      asked += 1
      return away ? new Promise<never>(() => undefined) : (groups.get(group) ?? null)
    },
  }
  const lags = createLags({ log, readModel: null, policy: 'policy', now: () => now })
  const lag = async (): Promise<unknown[]> => {
    const { scorer, trainer, publisher } = await lags(await createMetrics().allValues())
    return [scorer, trainer === null ? null : trainer > 20 ? 'behind' : trainer, publisher]
  }
  assert.deepEqual(await lag(), [null, 'behind', null])
  groups.set('trainer.policy', { weights: { [partition]: 1 } }).set('scorer.policy', { weights: { [partition]: 1 } })
  assert.deepEqual(await lag(), [null, 'behind', null], 'they are read every five seconds')
  assert.equal(asked, 3)
  now += 5_000
  await lag()
  await new Promise(setImmediate)
  assert.deepEqual(await lag(), [0, 0, null])
  away = true
  now += 5_000
  assert.deepEqual(await lag(), [0, 0, null], 'what is known is told meanwhile')
  now += 30_000
  assert.deepEqual(await lag(), [null, null, null])
  assert.equal(asked, 9, 'one reading at a time')
  const written = T0
  const young = createLags({
    log: { ...log, committed: async () => ({ weights: { [partition]: 0 } }) },
    readModel: null,
    policy: 'policy',
    now: () => at,
  })
  let at = written + 14_000
  const scorer = async (): Promise<number | null> => (await young(await createMetrics().allValues())).scorer
  assert.equal(await scorer(), 0, 'what was committed may be older than the record')
  at += 4_000
  assert.ok((await scorer())! > 15)
})
