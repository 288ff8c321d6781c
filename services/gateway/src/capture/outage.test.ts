/** A log that cannot be written for a time: whether the gateway is ready. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setImmediate as immediate, setTimeout as delay } from 'node:timers/promises'
import { InstarError, schemaTexts } from '@instar/events'
import { openEmbeddedLog, openMemoryLog } from '@instar/log'
import { startRig, USER, withAppend, type Rig } from '../../../../test/kit/gateway.ts'
import { Capture } from './capture.ts'

const ready = async (rig: Rig): Promise<[number, string]> => {
  const response = await rig.fetch('/health/ready')
  return [response.status, ((await response.json()) as { status: string }).status]
}
const ask = async (rig: Rig): Promise<number> =>
  (await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })).status
const untilReady = async (rig: Rig): Promise<void> => {
  while ((await ready(rig))[0] !== 200) await delay(20)
}

test(
  'on the embedded log: not ready while its file cannot be written, though nobody asks; ready once it can',
  { timeout: 60_000 },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'instar-outage-'))
    t.after(() => rm(folder, { recursive: true }))
    const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
    let clock = Date.now()
    const rig = await startRig({ log, ports: { now: () => clock }, settings: { appendPatienceMs: 0 } })
    t.after(async () => {
      await rig.stop()
      await log.close()
    })
    // Another writer holds the file for longer than SQLite waits for it.
    const other = new DatabaseSync(join(folder, 'log.db'))
    other.exec('BEGIN IMMEDIATE')
    try {
      assert.equal(await ask(rig), 503)
      assert.deepEqual(await ready(rig), [503, 'log not taking'])
      clock += 60_000
      assert.deepEqual(await ready(rig), [503, 'log not taking'], 'a minute later')
      await assert.rejects(log.probe!(), { code: 'log_unavailable' })
      assert.deepEqual(await ready(rig), [503, 'log not taking'], 'after a probe')
      other.exec('ROLLBACK')
    } finally {
      other.close()
    }
    await untilReady(rig)
    assert.equal(await ask(rig), 200)
  },
)

test('an append that succeeds ends it, too, and a queue that was full does so with its time', async (t) => {
  let [clock, refuse]: [number, InstarError | null] = [1000, new InstarError('log_unavailable', 'away')]
  const log = withAppend(openMemoryLog(), (_, next) => (refuse ? Promise.reject(refuse) : next()))
  Object.assign(log, { probe: () => Promise.reject(new InstarError('log_unavailable', 'no probe')) })
  const rig = await startRig({ log, ports: { now: () => clock }, settings: { appendPatienceMs: 0 } })
  t.after(() => rig.stop())
  assert.equal(await ask(rig), 503)
  clock += 1001
  assert.deepEqual(await ready(rig), [503, 'log not taking'])
  refuse = null
  assert.equal(await ask(rig), 200)
  assert.deepEqual(await ready(rig), [200, 'ready'])
  refuse = new InstarError('log_full', 'full')
  assert.equal(await ask(rig), 503)
  clock += 1001
  assert.deepEqual(await ready(rig), [200, 'ready'])
})

test('it probes once a second until a probe succeeds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const away = new InstarError('log_unavailable', 'away')
  let probes = 0
  const log = withAppend(openMemoryLog(), () => Promise.reject(away))
  Object.assign(log, { probe: () => ((probes += 1) < 3 ? Promise.reject(away) : Promise.resolve()) })
  let now = 1000
  const capture = new Capture({ log, now: () => now, onBroken: () => undefined }, { patienceMs: 0, maxHeld: 8 })
  const closed = { type: 'SessionClosed', session: 's', open: [], why: 'client', at: 1 } as const
  await assert.rejects(capture.write({ ...closed, open: [] }), away)
  now += 10_000
  for (let second = 1; second <= 3; second += 1) {
    assert.equal(capture.outage(), away)
    t.mock.timers.tick(1000)
    for (let turn = 0; turn < 5; turn += 1) await immediate()
    assert.equal(probes, second)
  }
  assert.equal(capture.outage(), null)
  t.mock.timers.tick(10_000)
  assert.equal(probes, 3)
})
