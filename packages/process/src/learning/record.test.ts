import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { announceUpgrade, openMemoryLog, type EventLog, type MemoryLog } from '@instar/log'
import { recordedSettings, recordSettings } from './record.ts'
import type { Origin, SettingValue } from './resolve.ts'

const NEVER = new AbortController().signal
const FILE: Origin = { from: 'file', file: 'instar.json' }
const DEFAULT: Origin = { from: 'default' }
const valuesOf = (batchSize: number, origin: Origin, votes = 3, voted: Origin = DEFAULT): SettingValue[] => [
  { name: 'training.batchSize', value: batchSize, origin },
  { name: 'training.loss', value: 'hybrid', origin: DEFAULT },
  { name: 'judge.llm.votes', value: votes, origin: voted },
]
const record = (log: EventLog, values: SettingValue[], now: number, policy = 'policy'): Promise<string[]> =>
  recordSettings(log, { policy, who: 'up', values, judges: () => ['llm-0a'], now, signal: NEVER })

test('a change of a section is one record with all of its values; unchanged and default ones are not written', async () => {
  const log = openMemoryLog()
  deepEqual(await record(log, valuesOf(16, DEFAULT), 1), [], 'defaults of the build')
  deepEqual(await record(log, valuesOf(32, FILE), 2), ['training'])
  deepEqual(await record(log, valuesOf(32, FILE), 3), [], 'the same again')
  const first = (await recordedSettings(log, 'policy')).get('training')
  deepEqual({ ...first?.settings }, { 'training.batchSize': '32', 'training.loss': '"hybrid"' })
  deepEqual([first?.who, first?.judges, first?.at], ['up', [], 2])
  deepEqual(await record(log, valuesOf(16, DEFAULT, 5, FILE), 4), ['training', 'judge'], 'back to the default')
  const last = await recordedSettings(log, 'policy')
  deepEqual([last.get('training')?.at, last.get('judge')?.judges], [4, ['llm-0a']])
  equal((await recordedSettings(log, 'other')).size, 0)
  deepEqual(await record(log, valuesOf(32, FILE), 5, 'other'), ['training'])
  equal((await recordedSettings(log, 'policy')).get('training')?.at, 4)
})

/** A log that other builds may read, such as Kafka. */
const shared = (log: MemoryLog): EventLog =>
  new Proxy(log, {
    get(target, name) {
      if (name === 'sole') return false
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? (member as () => unknown).bind(target) : member
    },
  })

test('nothing is written before all readers of the log support the record, which would stop older builds', async () => {
  const log = shared(openMemoryLog())
  deepEqual(await record(log, valuesOf(32, FILE), 1), [])
  equal((await log.ends(['upgrades'])).upgrades?.[0] ?? 0, 0)
  await announceUpgrade(log, 'setup', 2, NEVER)
  deepEqual(await record(log, valuesOf(32, FILE), 3), ['training'])
})
