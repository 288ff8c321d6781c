/** A new build that must fold again: beside the old state, not ready, and not in its group before it has read the log. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { COUNTED, encodeEvent } from '@instar/events'
import { logWith, openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { turn } from '../../../../test/kit/projected-history.ts'
import { createMetrics, runDecider, startHealth, watchOtherBuilds } from '../index.ts'
import { foldingHealth } from './folding.ts'

const RECORDS = 300

test('a new build says that it folds, with what it has read, and joins its group when it has read all; the old build goes on without folding', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-folding-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const log = openMemoryLog()
  for (let i = 0; i < RECORDS; i += 1) {
    const { id: _, ...record } = encodeEvent(turn({ session: `s${i}`, name: `n${i}`, says: 'Yes.' }))
    await log.append([record])
  }
  /** A life of a build: what its health says when it begins to read and when it joins its group, and what it folded by then. */
  const life = async (number: number) => {
    const metrics = createMetrics()
    const snapshots = openSnapshots(folder)
    watchOtherBuilds(metrics, snapshots)
    let ready = false
    const health = await startHealth(
      '127.0.0.1',
      0,
      async () => {
        if (ready) return { status: 'ready', problem: null }
        return (await foldingHealth(snapshots, metrics)) ?? { status: 'starting', problem: 'starting' }
      },
      metrics,
    )
    const said: [status: number, body: unknown, folded: number][] = []
    let folded = 0
    const ask = async (): Promise<void> => {
      const response = await fetch(`http://127.0.0.1:${health.port}/health/ready`)
      said.push([response.status, await response.json(), folded])
    }
    const watched = logWith<EventLog>(log, {
      subscribe: async (options) => (await ask(), log.subscribe(options)),
      joinGroup: async (...args) => (await ask(), log.joinGroup(...args)),
    })
    const scorer = runDecider<{ read: number }, never>({
      ports: { log: watched, snapshots, metrics, now: Date.now, onFatal: assert.ifError },
      service: 'scorer',
      policy: 'policy',
      topics: ['turns'],
      assignment: 'turns',
      snapshot: {
        version: { number, migrations: {} },
        state: (snapshot) => (snapshot.keys('read'), { read: 0 }),
      },
      core: {
        initialState: () => ({ read: 0 }),
        evolve: () => ((folded += 1), COUNTED),
        decide: () => ({ do: 'wait', why: 'turns' }),
      },
      act: async () => null,
    })
    await scorer.start()
    ready = true
    await ask()
    const bytes = /^instar_other_builds_state_bytes (\d+)$/m.exec(await metrics.text())?.[1]
    await scorer.stop()
    await health.stop()
    return { said, bytes: Number(bytes) }
  }
  const starting = { status: 'starting', problem: 'starting' }
  const folding = { status: 'folding', problem: 'folding', states: ['scorer.policy'] }
  const readyNow = [200, { status: 'ready', problem: null }]
  assert.deepEqual(await life(1), {
    said: [
      [503, starting, 0],
      [503, starting, RECORDS],
      [...readyNow, RECORDS],
    ],
    bytes: 0,
  })
  const { said, bytes } = await life(2)
  assert.deepEqual(said, [
    [503, { ...folding, folded: 0, lagSeconds: null }, 0],
    [503, { ...folding, folded: RECORDS, lagSeconds: 0 }, RECORDS],
    [...readyNow, RECORDS],
  ])
  assert.deepEqual(
    readdirSync(folder).filter((file) => file.endsWith('.db')),
    ['scorer.policy.db', 'scorer.policy.v2.db'],
  )
  assert.equal(bytes, statSync(join(folder, 'scorer.policy.db')).size)
  for (const number of [1, 2]) {
    const again = await life(number)
    assert.deepEqual(again.said, [
      [503, starting, 0],
      [503, starting, 0],
      [...readyNow, 0],
    ])
    assert.ok(again.bytes > 8_192, `${again.bytes}`)
  }
})
