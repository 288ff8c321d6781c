/** The recent sessions of a snapshot: in the order of the last touch, and damage of a row of theirs. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { encodeEvent } from '@instar/events'
import { openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { POLICY } from '../../../../test/kit/histories.ts'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { liveGateway } from '../../../../test/snapshots/gateway.ts'
import { addListed, type ListedSession } from './core/listed-sessions.ts'
import { initialIndex, touch, type SessionIndex } from './core/session-index.ts'
import { openSnapshot } from './snapshot.ts'

const LIMITS = { sessions: 50, turns: 1_000 }
const COUNT = 30

const historyOf = async (t: TestContext): Promise<{ log: EventLog; folder: string; file: string }> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-listed-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const log = openMemoryLog()
  for (let i = 0; i < 3 * COUNT; i += 1) {
    const session = `s${i % COUNT}`
    const { id: _, ...record } = encodeEvent(turn({ session, name: `n${i}`, says: `Answer ${i}.`, at: T0 + i }))
    await log.append([record])
  }
  return { log, folder, file: join(folder, `gateway.${POLICY}.turns.db`) }
}

/** Starts a gateway of the folder, which stores its state when it ends; `lines`: what its store says. */
const life = async <T>(
  log: EventLog,
  folder: string,
  use: (index: SessionIndex) => T,
  lines: string[] = [],
): Promise<T> => {
  const store = openSnapshots(folder, { records: 1e9, ms: Infinity, logLine: (line) => void lines.push(line) })
  const snapshot = openSnapshot(store, POLICY, LIMITS)
  return liveGateway(log, folder, LIMITS, {}, async () => use(snapshot.index), snapshot)
}

const viewOf = ({ recent, fold, turns, byLoose }: SessionIndex): unknown =>
  structuredClone([
    [...recent.newestFirst()].map(([session, one]) => [session, { ...one }]),
    [...recent.keys()].map((session) =>
      fold.sessions.get(session)?.turns.map(({ extra, ...rest }) => ({ ...rest, extra })),
    ),
    turns,
    byLoose,
  ])

test('after a restart the sessions that were touched last are evicted last', async (t) => {
  const { log, folder } = await historyOf(t)
  const was = await life(log, folder, (index) => {
    touch(index, 's3')
    return [...index.recent.keys()]
  })
  assert.equal(was.at(-1), 's3')
  const { id: _, ...record } = encodeEvent(turn({ session: 's7', name: 'last', says: 'Last.', at: T0 + 1e6 }))
  await log.append([record])
  const next = await life(log, folder, (index) => {
    touch(index, 's5')
    return [...index.recent.keys()]
  })
  assert.deepEqual(next, [...was.filter((one) => one !== 's7' && one !== 's5'), 's7', 's5'])
})

test('a start that finds a damaged row of a recent session reads the log into an empty state, and stores that', async (t) => {
  const { log, folder, file } = await historyOf(t)
  const truth = await life(log, folder, viewOf)
  const db = new DatabaseSync(file)
  // The last that is read: the others are in memory by then.
  const { changes } = db
    .prepare(
      "UPDATE entries SET value = zeroblob(length(value)) WHERE name = (SELECT id FROM names WHERE name = 'sessions') AND key = ?",
    )
    .run(`s${COUNT - 1}`)
  assert.equal(changes, 1)
  db.close()
  const lines: string[] = []
  assert.deepEqual(await life(log, folder, viewOf, lines), truth)
  assert.equal(lines.filter((line) => line.includes('the log is read from its start')).length, 1, lines.join('\n'))
  lines.length = 0
  assert.deepEqual(await life(log, folder, viewOf, lines), truth)
  assert.deepEqual(lines, [])
})

test('a list that does not fit the turns of a session is refused, and adds nothing', async (t) => {
  const { log, folder } = await historyOf(t)
  await life(log, folder, (index) => {
    const other = { ...initialIndex(LIMITS), fold: index.fold }
    const [good, long, short, unknown] = [
      ['s1', 0, [0, 3, 4], []],
      ['s2', 0, [0, 3, 4, 5], []],
      ['s3', 1, [0], []],
      ['other', 0, [0], []],
    ] as const satisfies readonly ListedSession[]
    for (const bad of [long, short, unknown]) {
      assert.match(addListed(other, [good, bad])!, new RegExp(bad[0]))
      assert.deepEqual([other.recent.size, other.turns, other.byLoose.size], [0, 0, 0])
    }
    // Of one that is listed twice the later counts.
    assert.equal(addListed(other, [good, ['s4', 2, [9], [[0, 0b101]]], ['s1', 1, [7, 1], []]]), null)
    assert.deepEqual([...other.recent.keys()], ['s4', 's1'])
    assert.deepEqual(
      [...other.recent.newestFirst()].map(([, { turns }]) => turns.map(({ at, seq }) => [at, seq])),
      [
        [
          [1, 7],
          [2, 8],
        ],
        [[2, 9]],
      ],
    )
    const [named] = other.recent.get('s4')!.turns
    assert.deepEqual(
      named!.names.map((name) => name === null),
      [true, false, true],
    )
    assert.deepEqual([other.seq, other.turns], [10, 3])
  })
})
