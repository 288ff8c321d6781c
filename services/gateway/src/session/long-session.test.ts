/** A session of many turns costs a request, an eviction and a snapshot no more than a short one. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { mintId, parseMintedId } from '@instar/dialects'
import { decodeRecord, encodeEvent, type Event, type Logged, type TurnsEvent, type TurnState } from '@instar/events'
import { openMemoryLog, openSnapshots, type Offsets } from '@instar/log'
import { SnapshotFile } from '@instar/log/snapshots/file'
import { seeded } from '../../../../test/kit/random.ts'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { turnOfMinted } from './core/follow.ts'
import { MOST_NAMED, turnsNamed } from './core/names.ts'
import {
  evolveIndex,
  initialIndex,
  sessionState,
  touch,
  turnsByAnswer,
  type SessionIndex,
} from './core/session-index.ts'
import { openSnapshot, type GatewaySnapshot } from './snapshot.ts'

const LIMITS = { sessions: 100, turns: 10_000 }
const says = (i: number): string => `Answer ${i}.`
const eventAt = (session: string, i: number): Event =>
  turn({ session, name: `${session} ${i}`, says: says(i), at: T0 + i, ...(i > 0 ? { to: says(i - 1) } : {}) })
const logged = (event: Event, offset: number): Logged<TurnsEvent> =>
  decodeRecord({ ...encodeEvent(event), partition: 0, offset }) as Logged<TurnsEvent>

let offset = 0
const fill = (index: SessionIndex, session: string, from: number, to: number): void => {
  for (let i = from; i < to; i += 1) {
    assert.ok(evolveIndex(index, logged(eventAt(session, i), offset)).counted)
    offset += 1
  }
}
const answerOf = (index: SessionIndex, session: string, i: number): TurnState['answer'] =>
  sessionState(index, session)!.turns[i]!.answer
const isFound = (index: SessionIndex, session: string, i: number): boolean =>
  turnsByAnswer(index, null, answerOf(index, session, i)).some((one) => one.session === session)

test(`a session is found by the answers of its last ${MOST_NAMED} turns, and counts as so many`, () => {
  const index = initialIndex(LIMITS)
  fill(index, 'long', 0, MOST_NAMED)
  assert.ok(isFound(index, 'long', 0))
  fill(index, 'long', MOST_NAMED, MOST_NAMED + 1)
  assert.ok(!isFound(index, 'long', 0))
  assert.ok(isFound(index, 'long', 1) && isFound(index, 'long', MOST_NAMED))
  assert.equal(index.recent.get('long')!.turns.length, MOST_NAMED)
  // In memory the turns are held that are not named.
  assert.equal(index.turns, MOST_NAMED + 1)
  fill(index, 'other', 0, LIMITS.turns - MOST_NAMED)
  assert.deepEqual(
    [...index.forgotten.newestFirst()].map(([session]) => session),
    ['long'],
  )
  assert.equal(index.turns, LIMITS.turns - MOST_NAMED)
  assert.equal(index.memory!.turns.size, index.turns)
})

type Kept = { gateway: GatewaySnapshot; from: Offsets; save(): Promise<void>; close(): Promise<void> }

/** A log of one record, at which every snapshot is. `onWrite`: called before a row of a table is written or deleted. */
const keeper = async (
  folder: string,
  limits = LIMITS,
  onWrite: (table: string) => void = () => undefined,
): Promise<() => Promise<Kept>> => {
  const file = (name: string): SnapshotFile =>
    new Proxy(new SnapshotFile(join(folder, `${name}.db`)), {
      get(target, property) {
        const value: unknown = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          if (property === 'set' || property === 'delete') onWrite(args[0] as string)
          return (value as (...all: unknown[]) => unknown).apply(target, args)
        }
      },
    })
  const log = openMemoryLog()
  const record = encodeEvent(eventAt('first', 0))
  const { topic, key, schema, payload, timestamp } = record
  await log.append([{ topic, key, schema, payload, timestamp }])
  const partition = Object.values((await log.ends(['turns'])).turns ?? {}).findIndex((end) => end > 0)
  const at = { ...logged(eventAt('first', 0), 0), partition, id: record.id }
  return async () => {
    const gateway = openSnapshot(openSnapshots(folder, { records: 1, ms: Infinity, file }), 'policy', limits)
    const from = await gateway.open(log)
    return {
      gateway,
      from: from.turns,
      save: async () => gateway.after(at),
      close: () => gateway.close({ save: false }),
    }
  }
}

test('the names of a long session are the same after a restart, an eviction and its return', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-long-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const start = await keeper(folder)
  const view = ({ gateway: { index } }: Kept): unknown =>
    structuredClone({
      recent: [...index.recent.newestFirst()].map(([session, one]) => [session, { ...one, turns: [...one.turns] }]),
      turns: index.turns,
      names: [index.byLoose, index.byAsked],
    })
  const check = async (life: Kept): Promise<Kept> => {
    await life.save()
    const was = view(life)
    await life.close()
    const next = await start()
    assert.deepEqual(view(next), was)
    return next
  }
  let life = await start()
  // Across each border of rows and of the names, more or less than one row at a time.
  let length = 0
  for (const to of [1, 127, 128, 129, 300, MOST_NAMED, MOST_NAMED + 1, MOST_NAMED + 130, MOST_NAMED + 500]) {
    fill(life.gateway.index, 'long', length, to)
    length = to
    life = await check(life)
    assert.equal(life.gateway.index.turns, Math.min(to, MOST_NAMED))
  }
  const others = Math.ceil(LIMITS.turns / 1000)
  for (let i = 0; i < others; i += 1) fill(life.gateway.index, `other${i}`, 0, 1000)
  assert.ok(!life.gateway.index.recent.has('long'))
  life = await check(life)
  touch(life.gateway.index, 'long')
  assert.deepEqual(
    [life.gateway.index.recent.get('long')!.first, life.gateway.index.recent.get('long')!.turns.length],
    [length - MOST_NAMED, MOST_NAMED],
  )
  life = await check(life)
  await life.close()
})

test('the turns of an answer are the same, and in the same order, after restarts: 300 sessions, two answers', async (t) => {
  for (const seed of [1, 2, 3]) {
    const folder = mkdtempSync(join(tmpdir(), 'instar-named-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const { below, chance, pick } = seeded(seed)
    const start = await keeper(folder, { sessions: 200, turns: 700 })
    const lists = ({ gateway: { index } }: Kept): unknown =>
      [index.byLoose, index.byAsked].map(
        (list) => new Map([...list.keys()].map((name) => [name, turnsNamed(list, name).map(({ turn: id }) => id)])),
      )
    let life = await start()
    let longest = 0
    for (let i = 0; i < 1500; i += 1) {
      const session = `s${below(300)}`
      const said = pick(['Yes.', 'Yes.', 'Yes. ', 'No.'])
      evolveIndex(
        life.gateway.index,
        logged(turn({ session, name: `${session} ${i}`, says: said, at: T0 + below(9e3) }), i),
      )
      const { byLoose } = life.gateway.index
      longest = Math.max(longest, ...[...byLoose.keys()].map((name) => turnsNamed(byLoose, name).length))
      if (chance(0.03)) await life.save()
      if (!chance(0.01) && i !== 1499) continue
      const was = [lists(life), [...life.gateway.index.recent.keys()]]
      // One that is due while the one before goes to the disk is put off, three times.
      for (let n = 0; n < 4; n += 1) await life.save()
      await life.close()
      life = await start()
      assert.deepEqual([lists(life), [...life.gateway.index.recent.keys()]], was, `seed ${seed}, ${i + 1} turns`)
    }
    assert.equal(longest, 256)
    await life.close()
  }
})

test('a session that a request evicts while a snapshot is written is in it whole, is not listed, and the snapshot is used', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-evicted-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let evict = (): void => undefined
  const start = await keeper(folder, { sessions: 2, turns: 10_000 }, (table) => {
    if (table === 'sessions') evict()
  })
  const life = await start()
  const { index } = life.gateway
  for (const session of ['old', 'a', 'b']) fill(index, session, 0, 5)
  await life.save()
  assert.deepEqual([...index.recent.keys()], ['a', 'b'])
  fill(index, 'a', 5, 300)
  fill(index, 'b', 5, 6)
  let evicted = 0
  evict = () => {
    if (evicted > 0) return
    evicted += 1
    touch(index, 'old')
    assert.ok(!index.recent.has('a'))
  }
  // A snapshot that is due while the one before goes to the disk is put off, three times.
  for (let n = 0; n < 4 && evicted === 0; n += 1) await life.save()
  assert.equal(evicted, 1)
  await life.close()
  const next = await start()
  assert.notDeepEqual(next.from, {})
  const kept = next.gateway.index
  assert.deepEqual([...kept.recent.keys()], ['b'])
  assert.equal(kept.recent.get('b')?.turns.length, 6)
  assert.equal(sessionState(kept, 'a')?.turns.length, 300)
  touch(kept, 'a')
  assert.deepEqual([...kept.recent.keys()], ['b', 'a'])
  await next.close()
})

test('the turn of an issued id is found from the last turn on', () => {
  const index = initialIndex(LIMITS)
  fill(index, 'long', 0, 5_000)
  const { turns } = sessionState(index, 'long')!
  let read = 0
  const counted = new Proxy(turns, {
    get(target, property) {
      if (typeof property === 'string' && /^\d+$/.test(property)) read += 1
      return Reflect.get(target, property) as unknown
    },
  })
  const partOf = (i: number): string => parseMintedId(mintId('resp', 'long', turns[i]!.turn))!.turn
  const find = (...parts: string[]): TurnState | undefined => turnOfMinted({ turns: counted }, parts)
  assert.equal(find(partOf(4_999)), turns[4_999])
  assert.equal(find(partOf(4_990), partOf(3)), turns[4_990])
  assert.ok(read < 40, `${read}`)
  assert.equal(find(partOf(7)), turns[7])
  assert.equal(find('a'.repeat(12), partOf(7), partOf(4_000)), turns[7])
  assert.equal(find('a'.repeat(12)), undefined)
})
