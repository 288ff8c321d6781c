import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, schemaTexts, type Event, type ScoresEvent } from '@instar/events'
import { openEmbeddedLog, openMemoryLog, type EventLog } from '@instar/log'
import { logFolder } from '@instar/process'
import { folder, instar } from '../../test/kit/cli.ts'
import { countPending } from './pending-scores.ts'

const HOUR = 3_600_000
const facts = (turn: string, version: number, at: number) => ({
  turn,
  session: 's',
  policy: 'policy',
  version,
  subject: 's',
  verdicts: [],
  cause: turn,
  rank: null,
  at,
})
const scored = (turn: string, version: number, at: number): ScoresEvent => ({
  type: 'TurnScored',
  ...facts(turn, version, at),
  reward: 1,
  judge: 'reactions',
  hint: null,
  hintJudge: null,
})
/** Feedback that takes the reward of a turn back. */
const withdrawn = (turn: string, version: number, at: number): ScoresEvent => ({
  type: 'TurnSkipped',
  ...facts(turn, version, at),
  reason: 'withdrawn',
  rank: { at, id: 'feedback' },
})
const logOf = async (
  events: readonly ScoresEvent[],
): Promise<{ log: Pick<EventLog, 'read' | 'ends'>; read: () => number }> => {
  const log = openMemoryLog({ partitions: { scores: 1 } })
  let read = 0
  await log.append(events.map((event) => encodeEvent(event)))
  return {
    log: {
      ends: (topics) => log.ends(topics),
      async *read(topic, options) {
        for await (const records of log.read(topic, { ...options, maxBatch: 10 })) {
          read += records.length
          yield records
        }
      },
    },
    read: () => read,
  }
}
const query = { policy: 'policy', versions: new Set([3, 2]), since: 10 * HOUR, spent: new Set<string>() }

test('only scores since the oldest usable version are read, and turns of batches and withdrawn rewards do not count', async () => {
  const old = Array.from({ length: 500 }, (_, i) => scored(`old${i}`, 1, HOUR + i))
  const { log, read } = await logOf([
    ...old,
    scored('a', 2, 10 * HOUR),
    scored('b', 3, 11 * HOUR),
    scored('c', 3, 11 * HOUR),
    scored('spent', 3, 11 * HOUR),
    scored('rolled back', 4, 11 * HOUR),
    withdrawn('c', 3, 12 * HOUR),
  ])
  const counts = await countPending(log, { ...query, spent: new Set(['spent']) })
  assert.equal(counts.pending, 2)
  assert.deepEqual([...counts.skipped], [['withdrawn', 1]])
  assert.equal(read(), 6)
})

test('counting stops at its limit of turns', async () => {
  const { log, read } = await logOf(Array.from({ length: 95 }, (_, i) => scored(`t${i}`, 3, 11 * HOUR + i)))
  assert.equal((await countPending(log, { ...query, most: 30 })).pending, 30)
  assert.equal(read(), 30)
})

test('`versions` counts the turns that a batch can use: a reward that was withdrawn is none', async () => {
  const data = folder()
  const log = await openEmbeddedLog({ folder: logFolder({ data }), schemas: schemaTexts() })
  const base = { name: 'm', sha256: 'x' }
  await log.append(
    [
      {
        type: 'LineStarted',
        prev: '',
        policy: 'policy',
        mode: 'live',
        base,
        parent: null,
        settings: {},
        at: HOUR,
      } as const,
      scored('a', 0, 2 * HOUR),
      scored('b', 0, 2 * HOUR),
      withdrawn('b', 0, 3 * HOUR),
    ].map((event) => encodeEvent(event)),
  )
  await log.close()
  const { code, out } = await instar(['versions'], { INSTAR_DATA: data })
  assert.equal(code, 0)
  assert.match(out, /waits for scored turns: 1 of 16/)
})

test('`versions` knows the turns of batches that were sealed after the clock was set back', async () => {
  const data = folder()
  const log = await openEmbeddedLog({ folder: logFolder({ data }), schemas: schemaTexts() })
  const sealed = {
    type: 'BatchSealed',
    prev: '',
    policy: 'policy',
    number: 1,
    parent: { version: 0, adapter: null, state: null },
    items: [],
    dropped: [{ turn: 'a', reason: 'not_usable' }],
    baselines: [],
    seed: 7,
    loss: 'hybrid',
    settings: {},
    at: 3 * HOUR,
  } satisfies Event
  const batch = encodeEvent(sealed)
  const failed = {
    type: 'UpdateFailed',
    prev: batch.id,
    policy: 'policy',
    batch: batch.id,
    number: 1,
    reason: 'update_not_finite: x',
    at: 3 * HOUR,
  } satisfies Event
  const started = {
    type: 'LineStarted',
    prev: '',
    policy: 'policy',
    mode: 'live',
    base: { name: 'm', sha256: 'x' },
    parent: null,
    settings: {},
    at: 10 * HOUR,
  } satisfies Event
  await log.append([
    encodeEvent(started),
    encodeEvent(scored('a', 0, 10 * HOUR)),
    encodeEvent(scored('b', 0, 2 * HOUR)),
    batch,
    encodeEvent(failed),
  ])
  await log.close()
  const { out } = await instar(['versions'], { INSTAR_DATA: data })
  assert.match(out, /waits for scored turns: 1 of 16/)
})
