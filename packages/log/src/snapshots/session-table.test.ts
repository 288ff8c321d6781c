import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextPass } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import {
  answerKey,
  decodeRecord,
  encodeEvent,
  foldTurns,
  initialTurns,
  written,
  type Event,
  type Logged,
  type SessionClosed,
  type TurnsEvent,
  type TurnsState,
} from '@instar/events'
import { turn as turnOf, T0 } from '../../../../test/kit/projected-history.ts'
import { openMemoryLog } from '../index.ts'
import { SnapshotFile, type FoldFile } from './file.ts'
import { storedTurns } from './folds.ts'
import { Snapshot, ROW_TURNS } from './snapshot.ts'

type Written = { table: string; key: string; bytes: number }
/** What one life of a service did with its file. `failAt`: the write that fails, counted from 1. */
type Watch = { written: Written[]; deleted: string[]; read: number; failAt: number | null; lines: string[] }
type Life = { snapshot: Snapshot; turns: TurnsState; watch: Watch; save(): Promise<void> }

const folderOf = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-rows-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

let offset = 0
const logged = (event: TurnsEvent): Logged<TurnsEvent> =>
  decodeRecord({ ...encodeEvent(event as Event), partition: 0, offset: (offset += 1) }) as Logged<TurnsEvent>

const open = async (folder: string, cacheWeight = 4): Promise<Life> => {
  const watch: Watch = { written: [], deleted: [], read: 0, failAt: null, lines: [] }
  const file = (name: string): FoldFile => {
    const opened = new SnapshotFile(join(folder, `${name}.db`))
    return new Proxy<FoldFile>(opened, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          if (property === 'set') {
            const [table, key, bytes] = args as [string, string, Uint8Array]
            watch.written.push({ table, key, bytes: bytes.length })
            if (watch.written.length === watch.failAt) throw new Error('the disk is full')
          }
          if (property === 'delete') watch.deleted.push((args as string[]).join(' '))
          if (property === 'get') watch.read += 1
          return (value as (...all: unknown[]) => unknown).apply(target, args)
        }
      },
    })
  }
  const logLine = (line: string): void => void watch.lines.push(line)
  const snapshot = new Snapshot({ folder, records: 1e9, ms: Infinity, cacheWeight, logLine, file }, 'test', {
    number: 1,
    migrations: {},
  })
  const turns = storedTurns(snapshot)
  // A log of one record, at which every snapshot is.
  const log = openMemoryLog()
  const record = encodeEvent(turnAt('only', 0) as Event)
  const { topic, key, schema, payload, timestamp } = record
  await log.append([{ topic, key, schema, payload, timestamp }])
  const partition = Object.values((await log.ends(['turns'])).turns ?? {}).findIndex((end) => end > 0)
  await snapshot.open(log)
  return {
    snapshot,
    turns,
    watch,
    async save() {
      void snapshot.after({ topic: 'turns', partition, offset: 0, id: record.id })
      watch.written = []
      watch.deleted = []
      await snapshot.save()
    },
  }
}

/** A life whose file is read whatever log it is of. */
const reopen = async (folder: string): Promise<Life & { close(): Promise<void> }> => {
  const life = await open(folder, 4)
  return { ...life, close: () => life.snapshot.close({ save: false }) }
}

const says = (i: number): string => `Answer ${i}.`
/** The turn `i` of a conversation: each continues the one before. */
const turnAt = (session: string, i: number, rest: object = {}): TurnsEvent =>
  turnOf({
    session,
    name: `${session} ${i}`,
    says: says(i),
    at: T0 + i,
    ...(i > 0 ? { to: says(i - 1) } : {}),
    ...rest,
  })

const fill = (states: readonly TurnsState[], session: string, from: number, to: number): void => {
  for (let i = from; i < to; i += 1) {
    const record = logged(turnAt(session, i))
    for (const state of states) assert.ok(foldTurns(state, structuredCopy(record)).counted)
  }
}
/** Each fold owns what it keeps. */
const structuredCopy = (record: Logged<TurnsEvent>): Logged<TurnsEvent> => ({ ...record, event: { ...record.event } })
const both = (states: readonly TurnsState[], event: TurnsEvent): void => {
  const record = logged(event)
  for (const state of states) assert.ok(foldTurns(state, structuredCopy(record)).counted, event.type)
}
const plain = (value: unknown): unknown => structuredClone(value)
/** Without a difference of sessions in the message, which would take minutes. */
const same = (state: TurnsState, truth: TurnsState, session: string, what = ''): void =>
  assert.ok(
    isDeepStrictEqual(plain(state.sessions.get(session)), plain(truth.sessions.get(session))),
    `${session} ${what}`,
  )
const rowsOf = (written: readonly Written[]): string[] => written.map(({ table, key }) => `${table} ${key}`).sort()
const nameOf = (state: TurnsState, session: string, i: number): string => state.sessions.get(session)!.turns[i]!.turn

test('sessions of any length are read back as they were, in rows of 128 turns', async (t) => {
  assert.equal(ROW_TURNS, 128)
  const folder = folderOf(t)
  const truth = initialTurns()
  const life = await open(folder)
  const lengths = [1, 127, 128, 129, 256, 257, 20_000]
  for (const length of lengths) fill([truth, life.turns], `s${length}`, 0, length)
  await life.save()
  for (const length of lengths)
    assert.deepEqual(
      rowsOf(life.watch.written.filter(({ key }) => key.split('\n')[0] === `s${length}`)),
      [
        `sessions s${length}`,
        ...Array.from({ length: Math.ceil(length / 128) - 1 }, (_, i) => `sessions turns s${length}\n${i + 1}`),
      ].sort(),
    )
  assert.ok(Math.max(...life.watch.written.map(({ bytes }) => bytes)) < 128 * 1024)
  await life.snapshot.close()
  const next = await reopen(folder)
  for (const length of lengths) {
    same(next.turns, truth, `s${length}`)
    assert.deepEqual(
      plain(next.turns.turns.get(nameOf(truth, `s${length}`, 0))),
      plain(truth.sessions.get(`s${length}`)!.turns[0]),
    )
  }
  await next.close()
})

test('each change of an old turn writes its row and that of the session, and no other', async (t) => {
  const folder = folderOf(t)
  const truth = initialTurns()
  let life = await open(folder)
  const states = (): TurnsState[] => [truth, life.turns]
  fill(states(), 's', 0, 1000)
  await life.save()
  const old = (i: number): string => nameOf(truth, 's', i)
  const closing = (rest: Partial<SessionClosed>): SessionClosed => ({
    type: 'SessionClosed',
    session: 's',
    open: [],
    why: 'idle',
    at: T0,
    ...rest,
  })
  const changes: [what: string, rows: number[], event: () => TurnsEvent][] = [
    ['a further turn', [7], () => turnAt('s', 1000)],
    // Turn 300 has a next state, so that only the new turn changes; 1000 has none.
    ['a continuation of an old turn', [7], () => turnAt('s', 1001, { name: 'other', after: answerKey(says(300), []) })],
    [
      'feedback on an old turn',
      [2],
      () => ({
        type: 'FeedbackGiven',
        id: 'f1',
        session: 's',
        turn: old(300),
        value: 1,
        comment: written('Good.'),
        subject: 'u',
        key: null,
        at: T0,
      }),
    ],
    [
      'a deleted response',
      [3],
      () => ({ type: 'ResponseDeleted', session: 's', turn: old(400), at: T0 }) as TurnsEvent,
    ],
    ['a closing of one turn', [7], () => closing({ open: [old(1000)] })],
    ['a parent', [], () => ({ type: 'SessionLinked', session: 's', parent: 'p', at: T0 })],
    ['an outcome', [0, 1, 2, 3, 4, 5, 6, 7], () => closing({ outcome: 0.5, task: 'x' })],
    ['a discard', [0, 1, 2, 3, 4, 5, 6, 7], () => closing({ discarded: true })],
  ]
  for (const [what, rows, event] of changes) {
    both(states(), event())
    await life.save()
    assert.deepEqual(
      rowsOf(life.watch.written),
      ['sessions s', ...rows.filter((row) => row > 0).map((row) => `sessions turns s\n${row}`)],
      what,
    )
    await life.snapshot.close({ save: false })
    life = await open(folder)
    same(life.turns, truth, 's', what)
  }
  await life.snapshot.close({ save: false })
})

test('a turn of an old row that gets its next state is written', async (t) => {
  const folder = folderOf(t)
  const truth = initialTurns()
  const life = await open(folder)
  const states = [truth, life.turns]
  fill(states, 's', 0, 200)
  // Side turns are no next states, so that turn 199 stays open while its row becomes an old one.
  for (let i = 200; i < 600; i += 1) both(states, turnAt('s', i, { kind: 'side' }))
  await life.save()
  both(states, turnAt('s', 600, { after: answerKey(says(199), []) }))
  await life.save()
  assert.deepEqual(rowsOf(life.watch.written), ['sessions s', 'sessions turns s\n1', 'sessions turns s\n4'])
  await life.snapshot.close({ save: false })
  const next = await reopen(folder)
  assert.equal(next.turns.sessions.get('s')!.turns[199]!.next, nameOf(truth, 's', 600))
  same(next.turns, truth, 's')
  await next.close()
})

test('a session that is removed, or replaced by a shorter one, leaves no row', async (t) => {
  const folder = folderOf(t)
  const life = await open(folder)
  fill([life.turns], 'gone', 0, 400)
  fill([life.turns], 'replaced', 0, 400)
  await life.save()
  life.turns.sessions.delete('gone')
  life.turns.sessions.delete('replaced')
  fill([life.turns], 'replaced', 0, 140)
  await life.save()
  await life.snapshot.close()
  const file = new SnapshotFile(join(folder, 'test.db'))
  assert.deepEqual(
    ['sessions', 'sessions turns'].flatMap((table) => file.entries(table, '').map(([key]) => key)),
    ['replaced', 'replaced\n1'],
  )
  await file.close()
  const next = await reopen(folder)
  assert.equal(next.turns.sessions.get('gone'), undefined)
  assert.equal(next.turns.sessions.get('replaced')!.turns.length, 140)
  await next.close()
})

test('a session that is removed and begins again before a snapshot is read from the file once it left the memory', async (t) => {
  const folder = folderOf(t)
  const life = await open(folder, 4)
  fill([life.turns], 'again', 0, 300)
  life.turns.sessions.delete('again')
  fill([life.turns], 'again', 0, 200)
  await life.save()
  for (let i = 0; i < 10; i += 1) fill([life.turns], `other${i}`, 0, 3)
  await life.save()
  assert.equal(life.turns.sessions.get('again')?.turns.length, 200)
  await life.snapshot.close()
})

test('a snapshot that fails or is cut off between two rows leaves the one before, and the next one has all', async (t) => {
  const folder = folderOf(t)
  const truth = initialTurns()
  const life = await open(folder)
  fill([truth, life.turns], 's', 0, 1000)
  await life.save()
  const before = plain(truth.sessions.get('s'))
  const changed = (): void =>
    both([truth, life.turns], {
      type: 'SessionClosed',
      session: 's',
      open: [],
      why: 'client',
      at: T0,
      outcome: 1,
    })
  changed()
  fill([truth, life.turns], 's', 1000, 1300)
  life.watch.failAt = 4
  await life.save()
  assert.equal(life.watch.written.length, 4)
  assert.match(life.watch.lines.join(), /no snapshot could be taken: the disk is full/)
  life.watch.failAt = null
  same(life.turns, truth, 's')
  // Without a save, as after a kill.
  await life.snapshot.close({ save: false })
  const cut = await reopen(folder)
  assert.ok(isDeepStrictEqual(plain(cut.turns.sessions.get('s')), before))
  await cut.close()

  const again = await open(folder)
  const rest = initialTurns()
  fill([rest, again.turns], 'other', 0, 300)
  again.watch.failAt = 2
  await again.save()
  again.watch.failAt = null
  fill([rest, again.turns], 'other', 300, 310)
  await again.save()
  await again.snapshot.close({ save: false })
  const last = await reopen(folder)
  same(last.turns, rest, 'other')
  await last.close()
})

test('a row that is missing is an error of the snapshot, which is deleted', async (t) => {
  const folder = folderOf(t)
  const life = await open(folder)
  fill([life.turns], 's', 0, 400)
  await life.save()
  await life.snapshot.close()
  const file = new SnapshotFile(join(folder, 'test.db'))
  file.delete('sessions turns', 's\n2')
  await file.close()
  const next = await reopen(folder)
  assert.throws(() => next.turns.sessions.get('s'), { code: 'snapshot_damaged' })
  await next.close()
  const anew = await reopen(folder)
  assert.equal(anew.turns.sessions.get('s'), undefined)
  await anew.close()
})

test('a long session is loaded in slices, and a change meanwhile is not lost', async (t) => {
  const folder = folderOf(t)
  const truth = initialTurns()
  const life = await open(folder)
  fill([truth, life.turns], 's', 0, 6_000)
  fill([truth, life.turns], 'short', 0, 128)
  await life.save()
  await life.snapshot.close()

  const next = await open(folder)
  assert.equal(next.snapshot.load('short'), undefined)
  assert.equal(next.snapshot.load('unknown'), undefined)
  let passes = 0
  let over = false
  const pass = (): void => {
    passes += 1
    if (!over) setImmediate(pass)
  }
  setImmediate(pass)
  const loading = next.snapshot.load('s')
  assert.equal(next.snapshot.load('s'), loading)
  await loading
  over = true
  assert.ok(passes >= 10, `${passes} turns of the event loop`)
  const read = next.watch.read
  same(next.turns, truth, 's')
  assert.equal(next.watch.read, read, 'nothing is read again')
  assert.equal(next.snapshot.load('s'), undefined)
  await next.snapshot.close({ save: false })

  const other = await open(folder)
  const raced = other.snapshot.load('s')
  both([truth, other.turns], turnAt('s', 6_000))
  await other.save()
  await raced
  same(other.turns, truth, 's')
  await other.snapshot.close({ save: false })
})

const collectGarbage = (): void => {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}

test('work that goes through many long sessions several times reads each once', async (t) => {
  const folder = folderOf(t)
  const life = await open(folder, 500)
  const names = Array.from({ length: 20 }, (_, i) => `s${i}`)
  const truth = initialTurns()
  for (const name of names) fill([truth, life.turns], name, 0, 300)
  await life.save()
  await life.snapshot.close()
  const next = await open(folder, 500)
  for (const name of names) await next.snapshot.load(name)
  const { read } = next.watch
  assert.equal(read, names.length * Math.ceil(300 / ROW_TURNS))
  for (let i = 0; i < 3; i += 1) for (const name of names) next.turns.sessions.get(name)
  assert.equal(next.watch.read, read)
  // A change of one that the cache no longer holds is written, and nothing else.
  both([truth, next.turns], turnAt('s0', 300))
  await next.save()
  assert.deepEqual(rowsOf(next.watch.written), ['sessions s0', 'sessions turns s0\n2'])
  await next.snapshot.close({ save: false })
  const last = await reopen(folder)
  for (const name of names) same(last.turns, truth, name)
  await last.close()
})

test('four long sessions in turns are not read again; the memory of a fifth is that of the one used longest ago', async (t) => {
  const folder = folderOf(t)
  const life = await open(folder, 500)
  for (const name of ['a', 'b', 'c', 'd', 'e']) fill([life.turns], name, 0, 1500)
  await life.save()
  await life.snapshot.close()
  const next = await open(folder, 500)
  for (const name of ['a', 'b', 'c', 'd']) next.turns.sessions.get(name)
  const read = next.watch.read
  for (let i = 0; i < 3; i += 1) for (const name of ['a', 'b', 'c', 'd']) next.turns.sessions.get(name)
  assert.equal(next.watch.read, read)
  next.turns.sessions.get('e')
  next.turns.sessions.get('d')
  assert.equal(next.watch.read, read + Math.ceil(1500 / ROW_TURNS))
  await nextPass()
  collectGarbage()
  next.turns.sessions.get('a')
  assert.equal(next.watch.read, read + 2 * Math.ceil(1500 / ROW_TURNS))
  await next.snapshot.close({ save: false })
})
