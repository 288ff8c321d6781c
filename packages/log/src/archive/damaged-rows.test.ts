/** A log with rows that do not match their checksums is archived without them, and restored. */
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { cutAll } from '../../../../test/kit/event-log/cutting.ts'
import { all, CUT_SCHEMAS, note, range, SCHEMAS } from '../../../../test/kit/event-log/harness.ts'
import {
  Archive,
  copyLog,
  openEmbeddedLog,
  openFolderStore,
  withArchive,
  writeArchive,
  type EmbeddedLog,
} from '../index.ts'
import { manifestText, type Manifest } from './manifest.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-archive-damaged-'))
after(() => rmSync(root, { recursive: true, force: true }))
const folder = (): string => mkdtempSync(join(root, 'x-'))

const opened = (path: string): Promise<EmbeddedLog> => openEmbeddedLog({ folder: path, schemas: SCHEMAS })
const add = (log: EmbeddedLog, count: number, start: number) =>
  log.append(
    range(count).map((i) => note(`k${(start + i) % 40}`, `text ${start + i}`, { timestamp: 1000 + start + i })),
  )

/** Flips a bit of the payload of each row of `turns` that the condition selects. */
const flip = (path: string, condition: string): void => {
  using db = new DatabaseSync(join(path, 'log.db'))
  const rows = db.prepare(`SELECT offset, payload FROM turns WHERE ${condition}`).all() as {
    offset: number
    payload: Uint8Array
  }[]
  for (const { offset, payload } of rows) {
    payload[2]! ^= 4
    db.prepare('UPDATE turns SET payload = ? WHERE offset = ?').run(payload, offset)
  }
}

const SIZES = { object: 2048, manifest: 8192 }
const archived = async (log: EmbeddedLog, place: string) => {
  const to = openFolderStore(place, true)
  try {
    return await writeArchive({ from: log, schemas: () => log.schemas(), to, sizes: SIZES })
  } finally {
    await to.close()
  }
}

const restored = async (place: string): Promise<EmbeddedLog> => {
  const log = await opened(folder())
  equal((await copyLog({ from: await Archive.open(openFolderStore(place, false)), to: log })).equal, true)
  return log
}

/** What a reader that passes over damaged records sees of each key, in order. */
const seen = async (log: EmbeddedLog): Promise<string[]> =>
  (await all(log.read('turns')))
    .filter(({ damaged }) => !damaged)
    .map(({ key, timestamp, payload }) => `${key} ${timestamp} ${Buffer.from(payload).toString('hex')}`)

test('a flipped row is passed over and listed; what follows it is archived, also by later runs, and restored', async () => {
  const [path, place] = [folder(), folder()]
  let log = await opened(path)
  await add(log, 500, 0)
  await log.close()
  flip(path, 'offset = 110')
  log = await opened(path)
  const first = await archived(log, place)
  const { partition } = (await all(log.read('turns'))).find(({ offset }) => offset === 110)!
  const damaged = { records: 1, first: [{ topic: 'turns', partition, offset: 110 }] }
  deepEqual([first.topics.turns.records, first.added.damaged, first.damaged], [499, 1, damaged])

  await add(log, 1000, 500)
  const second = await archived(log, place)
  deepEqual(
    [second.added.records, second.added.damaged, second.topics.turns.records, second.damaged],
    [1000, 0, 1499, damaged],
  )
  const third = await archived(log, place)
  deepEqual([third.added, third.manifest], [{ records: 0, objects: 0, bytes: 0, damaged: 0 }, second.manifest])

  const check = await (await Archive.open(openFolderStore(place, false))).check({ onProgress: () => undefined })
  deepEqual([check.problems, check.complete, check.damaged], [[], true, damaged])
  const copy = await restored(place)
  const expected = await seen(log)
  equal(expected.length, 1499)
  deepEqual(await seen(copy), expected)
  deepEqual(
    (await all(copy.read('turns'))).filter((record) => record.damaged),
    [],
  )
  await Promise.all([copy.close(), log.close()])
})

test('damaged rows at the end of every partition, and later of archived ones, are recorded once', async () => {
  const [path, place] = [folder(), folder()]
  let log = await opened(path)
  await add(log, 200, 0)
  await log.close()
  flip(path, 'offset >= 150')
  log = await opened(path)
  const first = await archived(log, place)
  deepEqual([first.topics.turns.records, first.added.damaged, first.damaged.records], [150, 50, 50])
  deepEqual((await archived(log, place)).added, { records: 0, objects: 0, bytes: 0, damaged: 0 })
  await log.close()
  // Rows that the archive has, the last of each partition among them.
  flip(path, 'offset < 150')
  log = await opened(path)
  await add(log, 100, 200)
  const second = await archived(log, place)
  deepEqual([second.added.records, second.added.damaged, second.topics.turns.records], [100, 0, 250])
  const copy = await restored(place)
  equal((await seen(copy)).length, 250)
  await Promise.all([copy.close(), log.close()])
})

test('a row that was repaired is archived by the next run, in its place; one that is damaged still stays listed', async () => {
  const [path, place] = [folder(), folder()]
  let log = await opened(path)
  await add(log, 500, 0)
  const records = await all(log.read('turns'))
  await log.close()
  // In objects, and behind the last one of their partitions.
  const bad = 'offset IN (0, 110, 111, 112) OR offset >= 470'
  flip(path, bad)
  log = await opened(path)
  const first = await archived(log, place)
  deepEqual([first.topics.turns.records, first.damaged.records], [466, 34])
  await log.close()

  flip(path, 'offset IN (0, 110, 112, 475, 490)')
  log = await opened(path)
  const second = await archived(log, place)
  deepEqual([second.added.records, second.added.damaged], [5, 0])
  deepEqual([second.topics.turns.records, second.damaged.records], [471, 29])
  deepEqual(second.topics.turns.ends, first.topics.turns.ends)
  deepEqual((await archived(log, place)).added, { records: 0, objects: 0, bytes: 0, damaged: 0 })
  const check = await (await Archive.open(openFolderStore(place, false))).check({ onProgress: () => undefined })
  deepEqual([check.problems, check.complete, check.damaged], [[], true, second.damaged])
  let copy = await restored(place)
  deepEqual(await seen(copy), await seen(log))
  equal((await seen(copy)).length, 471)
  await Promise.all([copy.close(), log.close()])

  flip(path, 'offset = 111 OR (offset >= 470 AND offset NOT IN (475, 490))')
  log = await opened(path)
  await add(log, 100, 500)
  const last = await archived(log, place)
  deepEqual([last.added.records, last.added.damaged, last.damaged], [129, 0, { records: 0, first: [] }])
  copy = await restored(place)
  deepEqual(await seen(copy), await seen(log))
  // Nothing is missing, so the offsets are those of the log.
  deepEqual(
    (await all(copy.read('turns'))).slice(0, 500).map(({ offset, key }) => [offset, key]),
    records.map(({ offset, key }) => [offset, key]),
  )
  await Promise.all([copy.close(), log.close()])
})

test('a repaired row does not take others with it that were damaged since: its object stays', async () => {
  const [path, place] = [folder(), folder()]
  let log = await opened(path)
  await add(log, 300, 0)
  const { partition } = (await all(log.read('turns')))[60]!
  const neighbour = (await all(log.read('turns'))).find((one) => one.partition === partition && one.offset > 60)!
  await log.close()
  flip(path, 'offset = 60')
  log = await opened(path)
  const first = await archived(log, place)
  await log.close()
  flip(path, `offset IN (60, ${neighbour.offset})`)
  log = await opened(path)
  const second = await archived(log, place)
  deepEqual([second.added.records, second.manifest], [0, first.manifest])
  await log.close()
  flip(path, `offset = ${neighbour.offset}`)
  log = await opened(path)
  const third = await archived(log, place)
  deepEqual([third.added.records, third.topics.turns.records, third.damaged.records], [1, 300, 0])
  await log.close()
})

test('the manifest lists the first hundred of a partition and counts the others; counts that do not fit are refused', async () => {
  const [path, place] = [folder(), folder()]
  let log = await opened(path)
  await log.append(range(400).map((i) => note('one', `text ${i}`)))
  await log.close()
  flip(path, 'offset >= 10 AND offset < 310')
  log = await opened(path)
  const { damaged, topics } = await archived(log, place)
  deepEqual(
    [topics.turns.records, damaged.records, damaged.first.length, damaged.first[99]!.offset],
    [100, 300, 100, 109],
  )
  const copy = await restored(place)
  deepEqual(await seen(copy), await seen(log))
  await Promise.all([copy.close(), log.close()])

  const file = join(place, 'manifest.json')
  const text = readFileSync(file, 'utf8')
  for (const change of [{ records: 99 }, { records: 301 }, { end: 50 }, { offsets: [1, 1] }]) {
    const { checksum: _, ...manifest } = JSON.parse(text) as Manifest & { checksum: string }
    for (const entry of manifest.topics.turns) if (entry.damaged) Object.assign(entry.damaged, change)
    writeFileSync(file, manifestText(manifest))
    await rejects(Archive.open(openFolderStore(place, false)), { code: 'archive_damaged' }, JSON.stringify(change))
  }
})

test('a cut names a damaged row that the archive does not have and deletes it on demand alone; the archive goes on, and is known again by rows that were damaged later', async () => {
  const [path, place] = [folder(), folder()]
  let log = await openEmbeddedLog({ folder: path, schemas: CUT_SCHEMAS })
  await add(log, 3000, 0)
  await log.close()
  flip(path, 'offset = 10')
  log = await openEmbeddedLog({ folder: path, schemas: CUT_SCHEMAS })
  await archived(log, place)
  await log.close()
  // The last rows before the cut, and those that stay as the last of their partitions: the archive has them whole.
  flip(path, 'offset >= 2000 AND offset < 2048')
  log = await openEmbeddedLog({ folder: path, schemas: CUT_SCHEMAS })
  const whole = (await all(log.read('turns'))).length
  const archive = await Archive.open(openFolderStore(place, false))
  const { partition } = (await log.read('turns')[Symbol.asyncIterator]().next()).value!.find(
    ({ offset }: { offset: number }) => offset === 10,
  )
  const unarchived = { records: 1, first: [{ topic: 'turns', partition, offset: 10 }] }
  deepEqual((await cutAll(log, { archive, place, dryRun: true })).unarchived, unarchived)
  await rejects(cutAll(log, { archive, place }), {
    code: 'not_archived',
    message: `nothing is cut: of the records to delete 1 cannot be read and is not in ${place}: turns ${partition}@10`,
  })
  equal((await all(log.read('turns'))).length, whole)
  const { topics, ...report } = await cutAll(log, { archive, place, deleteUnreadable: true })
  deepEqual(report.unarchived, unarchived)
  ok(topics.turns.records >= 1900, `${topics.turns.records}`)
  equal((await all(log.read('turns', { from: await log.starts(['turns']) }))).length, whole - topics.turns.records)
  const source = { address: place, open: () => Promise.resolve(archive), close: () => Promise.resolve() }
  const readable = (await all(withArchive(log, source).read('turns'))).filter(({ damaged }) => !damaged)
  // Those that stay, the last of their partitions, are read from the log.
  const stay = Object.values((await log.starts(['turns'])).turns!).filter((start) => start >= 2000).length
  ok(stay >= 6, `${stay} damaged rows stay`)
  equal(readable.length, whole - 1 - stay)
  await add(log, 10, 3000)
  const { added, damaged } = await archived(log, place)
  deepEqual([added.records, added.damaged, damaged.records], [11, 0, 1], 'with the record that allows the cut')
  await log.close()
})
