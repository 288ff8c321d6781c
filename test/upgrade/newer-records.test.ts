/** Records of newer builds on a log that this one reads: what it can read and what it may write. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  encodeEvent,
  encodeRecord,
  InstarError,
  NEWEST,
  recordId,
  RELEASED,
  schemaTexts,
  type Event,
  type Logged,
  type ReadersUpgraded,
  type SessionLinked,
} from '@instar/events'
import {
  announceUpgrade,
  followEvents,
  openEmbeddedLog,
  openMemoryLog,
  readUpgrades,
  versionsOn,
  type EventLog,
} from '@instar/log'
import { newer } from './newer.ts'

const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  folders.push(mkdtempSync(join(tmpdir(), 'instar-newer-')))
  return folders.at(-1)!
}

const LINKED: SessionLinked = { type: 'SessionLinked', session: 's', parent: 'r', at: 8 }
const NEVER = new AbortController().signal

const read = async (log: EventLog): Promise<Logged[]> => {
  const read: Logged[] = []
  const follower = await followEvents(log, {
    name: 'reader',
    topics: ['turns'],
    onEvent: (logged) => void read.push(logged),
  })
  await follower.caughtUp()
  await follower.stop()
  return read
}

test('the embedded log returns records of a newer build with their schema and ids', async () => {
  const path = folder()
  const later = newer('SessionLinked', 'note', 'string', '')
  const theirs = await openEmbeddedLog({ folder: path, schemas: { ...schemaTexts(), ...later.schemas } })
  const record = later.encode({ ...LINKED, note: 'new' })
  await theirs.append([encodeRecord(LINKED), record])
  const whileOpen = await read(theirs)
  await theirs.close()
  const ours = await openEmbeddedLog({ folder: path, schemas: schemaTexts() })
  for (const seen of [whileOpen, await read(ours)]) {
    assert.deepEqual(
      seen.map(({ event }) => ({ ...event })),
      [{ ...LINKED }, { ...LINKED }],
    )
    assert.deepEqual(
      seen.map(({ id }) => id),
      [encodeEvent(LINKED).id, recordId(record)],
    )
  }
  await ours.close()
  const looking = await openEmbeddedLog({ folder: path, readOnly: true })
  assert.equal((await read(looking)).length, 2)
  await looking.close()
})

test('a record type of a newer build ends the reader with unknown_record', async () => {
  const path = folder()
  const { schemas, encode } = newer('SessionLinked', 'note', 'string', '', 'SessionRenamed.v1')
  const log = await openEmbeddedLog({ folder: path, schemas: { ...schemaTexts(), ...schemas } })
  await log.append([encode({ ...LINKED, note: '' })])
  const follower = await followEvents(log, { name: 'reader', topics: ['turns'], onEvent: () => undefined })
  await assert.rejects(follower.done, (error) => error instanceof InstarError && error.code === 'unknown_record')
  await log.close()
})

test('on a shared log only released versions are written until a record announces newer readers', async () => {
  const memory = openMemoryLog()
  const log: EventLog = new Proxy(memory, {
    get: (target, name) =>
      (name === 'sole'
        ? false
        : typeof Reflect.get(target, name) === 'function'
          ? (Reflect.get(target, name) as () => unknown).bind(target)
          : Reflect.get(target, name)) as unknown,
  })
  assert.deepEqual(versionsOn(log), RELEASED)
  const told: Event[] = []
  const follower = await followEvents(log, {
    name: 'writer',
    topics: ['turns'],
    onEvent: ({ event }) => void told.push(event),
  })
  const announced: ReadersUpgraded = {
    type: 'ReadersUpgraded',
    versions: { SessionLinked: 5, SessionClosed: 0, FromTheFuture: 3 },
    who: 'setup',
    at: 1,
  }
  await log.append([encodeRecord(announced)])
  await follower.caughtUp()
  // Never lower, and no list whose entries others extend.
  assert.deepEqual(Object.fromEntries(versionsOn(log)), { ...Object.fromEntries(RELEASED), SessionLinked: 5 })
  assert.deepEqual(told, [])
  await follower.stop()
  assert.deepEqual((await readUpgrades(log)).get('SessionLinked'), 5)
})

test('on a log of one process the newest versions are written at once', async () => {
  const embedded = await openEmbeddedLog({ folder: folder(), schemas: schemaTexts() })
  for (const log of [openMemoryLog(), embedded]) assert.deepEqual(versionsOn(log), NEWEST)
  await embedded.close()
})

test('this build is announced once', async () => {
  const log = openMemoryLog()
  const first = await announceUpgrade(log, 'setup', 5, NEVER)
  const news = Object.fromEntries([...NEWEST].filter(([name, version]) => version > (RELEASED.get(name) ?? 0)))
  assert.deepEqual(first ?? {}, news)
  assert.equal(await announceUpgrade(log, 'setup', 6, NEVER), null)
  for (const [name, version] of await readUpgrades(log)) assert.equal(version, NEWEST.get(name))
})
