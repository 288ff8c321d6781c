/** The recent sessions of a snapshot: in the order of the last touch, and damage of a row of theirs. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { decodeRecord, encodeEvent, type Logged, type TurnsEvent } from '@instar/events'
import { openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { SnapshotFile } from '@instar/log/snapshots/file'
import { POLICY } from '../../../../test/kit/histories.ts'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { liveGateway } from '../../../../test/snapshots/gateway.ts'
import { addListed, applyEntry, listEntry, type ListedSession } from './core/listed-sessions.ts'
import { MOST_NAMED } from './core/names.ts'
import { evolveIndex, initialIndex, touch, type SessionIndex } from './core/session-index.ts'
import { openSnapshot, type GatewaySnapshot } from './snapshot.ts'

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

/** Adds the list in one piece. Returns what is wrong with it; null: nothing. */
const added = (index: SessionIndex, list: readonly ListedSession[]): string | null => {
  const read = (session: string, from: number) => {
    const turns = index.fold.sessions.get(session)?.turns
    return turns?.[0] && { count: turns.length, begin: turns[0], turns: turns.slice(from) }
  }
  const listed = new Map(list.map((one) => [one[0], one]))
  return [...addListed(index, listed, read)].find((problem) => problem !== null) ?? null
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

test('a list that does not fit the turns of a session is refused, and adds nothing; a later entry of a session replaces those before', async (t) => {
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
      assert.match(added(other, [good, bad])!, new RegExp(bad[0]))
      assert.deepEqual([other.recent.size, other.turns, other.byLoose.size], [0, 0, 0])
    }
    const list = new Map<string, ListedSession>()
    applyEntry(list, good)
    applyEntry(list, ['s6', 0, [0, 1, 2], []])
    applyEntry(list, ['s4', 0, [9, 1, 1], [[0, 0b101]]])
    applyEntry(list, ['s1', 1, [7, 1], []])
    applyEntry(list, ['s4', 2, [9], [[0, 0b101]], 1])
    applyEntry(list, ['s6'])
    assert.equal(added(other, [...list.values()]), null)
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
    assert.deepEqual([named!.loose === null, named!.asked === null], [false, true])
    const lacks = (): unknown => listEntry(other, 's4', 'changed')[3]
    assert.deepEqual(lacks(), [[0, 0b100]])
    // Builds with an index of strict answers look for one that is not there.
    named!.loose = null
    assert.deepEqual(lacks(), [[0, 0b111]])
    assert.deepEqual([other.seq, other.turns], [10, 3])
  })
})

/** Fills a log with sessions of so many turns each, and stores a gateway's state of it. */
const stored = async (t: TestContext, sessions: readonly (readonly [session: string, turns: number])[]) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-start-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const log = openMemoryLog()
  for (const [session, turns] of sessions)
    await log.append(
      Array.from({ length: turns }, (_, i) => {
        const { id: _id, ...record } = encodeEvent(turn({ session, name: `${session} ${i}`, says: `${session} ${i}.` }))
        return record
      }),
    )
  const limits = { sessions: 20_000, turns: 200_000 }
  /** Starts a gateway on the stored state. `onRow`: called with the table of each row that is read for it. */
  const start = async (onRow: (table: string) => void = () => undefined): Promise<number> => {
    const file = (name: string): SnapshotFile => {
      const one = new SnapshotFile(join(folder, `${name}.db`))
      const { get } = one
      one.get = (table, key) => {
        onRow(table)
        return get.call(one, table, key)
      }
      return one
    }
    const snapshot = openSnapshot(openSnapshots(folder, { records: 1e9, ms: Infinity, file }), POLICY, limits)
    return liveGateway(log, folder, limits, {}, async () => snapshot.index.turns, snapshot)
  }
  await start()
  return start
}

test('a start reads 2,000 sessions with other work between them: at most 500 at a time, and each once', async (t) => {
  const COUNTED = 2_000
  const start = await stored(
    t,
    Array.from({ length: COUNTED }, (_, i) => [`s${i}`, 3]),
  )
  let [read, atATime, most] = [0, 0, 0]
  let watching = true
  const watch = (): void => {
    atATime = 0
    if (watching) setImmediate(watch)
  }
  watch()
  const turns = await start((table) => {
    if (table !== 'sessions') return
    read += 1
    atATime += 1
    most = Math.max(most, atATime)
  })
  watching = false
  assert.deepEqual([read, turns], [COUNTED, 3 * COUNTED])
  assert.ok(most <= 500, `${most} sessions were read at a time`)
})

test('a start reads of a session of 5,000 turns only the rows of those that are named', async (t) => {
  const start = await stored(t, [['long', 5_000]])
  const rows = { sessions: 0, 'sessions turns': 0 }
  const turns = await start((table) => {
    if (table === 'sessions' || table === 'sessions turns') rows[table] += 1
  })
  assert.equal(turns, MOST_NAMED)
  // Of 128 turns each: the last 2,048 of 5,000 are in 17 of the 40.
  assert.deepEqual(rows, { sessions: 1, 'sessions turns': 17 })
})

test('a snapshot after one more turn writes one short row of the list of 20,000 sessions', async (t) => {
  const COUNTED = 20_000
  const folder = mkdtempSync(join(tmpdir(), 'instar-list-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let written: [table: string, bytes: number][] = []
  const file = (name: string): SnapshotFile => {
    const one = new SnapshotFile(join(folder, `${name}.db`))
    const { set } = one
    one.set = (table, key, value) => {
      written.push([table, value.length])
      set.call(one, table, key, value)
    }
    return one
  }
  // Every snapshot is at the one record of this log.
  const log = openMemoryLog({ partitions: { turns: 1 } })
  const { id, ...record } = encodeEvent(turn({ session: 'first', name: 'first', says: 'First.' }))
  await log.append([record])
  const open = async (): Promise<GatewaySnapshot> => {
    const store = openSnapshots(folder, { records: 1, ms: Infinity, file })
    const snapshot = openSnapshot(store, POLICY, { sessions: COUNTED, turns: 10 * COUNTED })
    await snapshot.open(log)
    return snapshot
  }
  const one = await open()
  let offset = 0
  const fold = (session: string): void => {
    const event = turn({ session, name: `n${offset}`, says: `Answer ${offset}.`, at: T0 + offset })
    evolveIndex(one.index, decodeRecord({ ...encodeEvent(event), partition: 0, offset }) as Logged<TurnsEvent>)
    offset += 1
  }
  /** Bytes of the rows of the list that a snapshot writes. */
  const save = async (): Promise<number[]> => {
    written = []
    // A snapshot that is due while the one before goes to the disk is put off, three times.
    for (let n = 0; n < 4 && written.length === 0; n += 1)
      await one.after({ topic: 'turns', partition: 0, offset: 0, id } as Logged)
    return written.filter(([table]) => table === 'recent').map(([, bytes]) => bytes)
  }
  for (let i = 0; i < COUNTED; i += 1) fold(`session ${i}`)
  const whole = await save()
  assert.ok(whole.reduce((sum, bytes) => sum + bytes) > 400_000, whole.join(' '))
  fold('session 7')
  const [bytes = 0, ...others] = await save()
  assert.ok(bytes > 0 && bytes < 60, `${bytes} bytes`)
  assert.deepEqual(others, [])
  assert.ok(written.length < 5, JSON.stringify(written))
  // With one more than are held the first is not listed any more.
  fold('another')
  const [both = 0, ...none] = await save()
  assert.ok(both > 0 && both < 90, `${both} bytes`)
  assert.deepEqual(none, [])
  const was = [...one.index.recent.keys()]
  assert.deepEqual([was.length, was[0], was.at(-2)], [COUNTED, 'session 1', 'session 7'])
  await one.close({ save: false })
  const again = await open()
  assert.deepEqual([...again.index.recent.keys()], was)
  await again.close({ save: false })
})
