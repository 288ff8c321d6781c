/** Cuts of the embedded log: kill -9 between and in their steps, readers of other processes, and damage to what they leave. */
import {
  Archive,
  cutsOn,
  isCutAway,
  openEmbeddedLog,
  openFolderStore,
  writeArchive,
  type EmbeddedLog,
  type Offsets,
} from '../index.ts'
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { allow, cutAll } from '../../../../test/kit/event-log/cutting.ts'
import { all, CUT_SCHEMAS, note, range } from '../../../../test/kit/event-log/harness.ts'
import { killAt, startScript } from '../../../../test/kit/event-log/scripts.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-embedded-cut-'))
after(() => rmSync(root, { recursive: true, force: true }))
const opened = (folder: string): Promise<EmbeddedLog> => openEmbeddedLog({ folder, schemas: CUT_SCHEMAS })
const archiveAt = (place: string): Promise<Archive> => Archive.open(openFolderStore(place, false))

/** More than two transactions of a cut. */
const RECORDS = 140_000

const completed = async (log: EmbeddedLog, place: string) => cutAll(log, { archive: await archiveAt(place), place })

describe('a cut that is killed', () => {
  const [source, place] = [join(root, 'source'), join(root, 'archive')]
  before(async () => {
    const log = await opened(source)
    for (let at = 0; at < RECORDS; at += 10_000)
      await log.append(range(10_000).map((i) => note(`k${i % 100}`, `${at + i}`)))
    const store = openFolderStore(place, true)
    await writeArchive({ from: log, schemas: () => log.schemas(), to: store })
    await store.close()
    await log.close()
  })
  for (const [step, deleted] of [
    ['announced', 0],
    ['deleting', null],
    ['deleted', 65_536],
  ] as const)
    test(
      `at ${step}: the log opens, lacks nothing that the archive does not have, and the next cut completes it`,
      { timeout: 60_000 },
      async () => {
        const folder = join(root, step)
        cpSync(source, folder, { recursive: true })
        await killAt(startScript('cutter', folder, place, step), new RegExp(`^${step}$`))
        const log = await opened(folder)
        const { turns } = (await log.starts(['turns'])) as { turns: Record<number, number> }
        const until = Math.max(...Object.values(turns)) + (Object.values(turns).some(Boolean) ? 1 : 0)
        if (deleted !== null) equal(until, deleted)
        ok([0, 65_536].includes(until), `${until}`)
        const held = await all(log.read('turns', { from: { turns } }))
        deepEqual(
          held.filter(({ offset }) => offset >= until).map(({ offset }) => offset),
          range(RECORDS - until).map((i) => until + i),
        )
        equal((await cutsOn(log)).length, 1)
        const report = await completed(log, place)
        deepEqual([report.record, report.completed], [null, true])
        equal((await all(log.read('turns', { from: await log.starts(['turns']) }))).length, (RECORDS % 1024) + 8)
        await log.append([note('k', 'goes on')])
        await log.close()
      },
    )
})

describe('a cut embedded log', () => {
  /** Of 3,000 turns the first 2,048 are cut. */
  const cut = async (name: string, text = ''): Promise<{ folder: string; log: EmbeddedLog; allowed: Offsets }> => {
    const folder = join(root, name)
    const log = await opened(folder)
    await log.append(range(3000).map((i) => note(`k${i % 100}`, `${i}${text}`)))
    const turns = Object.fromEntries(range(8).map((partition) => [partition, 2500]))
    await allow(log, { turns })
    return { folder, log, allowed: { turns } }
  }
  const changed = async (name: string, sql: string): Promise<string> => {
    const { folder, log, allowed } = await cut(name)
    await log.cut(allowed)
    await log.close()
    await opened(folder).then((again) => again.close())
    const db = new DatabaseSync(join(folder, 'log.db'))
    db.exec(sql)
    db.close()
    return folder
  }
  const refuses = async (folder: string, error: object): Promise<void> => {
    await rejects(opened(folder), error)
    await rejects(openEmbeddedLog({ folder, readOnly: true }), error)
  }

  test('one reads on that another process has open while it is cut, and what is gone is refused there', async () => {
    const { folder, log, allowed } = await cut('reader')
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    const ends = await reader.ends(['turns'])
    const [first] = await all(
      reader.read('turns', { maxBatch: 1, to: { turns: { 0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1 } } }),
    )
    await log.cut(allowed)
    await rejects(reader.at(first!), isCutAway)
    await rejects(async () => all(reader.read('turns')), isCutAway)
    await rejects(async () => all(reader.read('turns', { partition: first!.partition })), isCutAway)
    deepEqual(await reader.ends(['turns']), ends)
    const from = await reader.starts(['turns'])
    equal((await all(reader.read('turns', { from }))).length, 3000 - 2048 + 8)
    await log.append([note('k', 'news')])
    equal((await all(reader.read('turns', { from }))).length, 3000 - 2048 + 8 + 1)
    await reader.close()
    await log.close()
  })

  test('records are appended while it is cut, and all of them are there', async () => {
    const folder = join(root, 'both')
    const log = await opened(folder)
    for (let at = 0; at < RECORDS; at += 10_000)
      await log.append(range(10_000).map((i) => note(`k${i % 100}`, `${at + i}`)))
    const turns = Object.fromEntries(range(8).map((partition) => [partition, RECORDS - 1000]))
    await allow(log, { turns })
    let appended = 0
    let cutting = true
    const done = log.cut({ turns }).finally(() => {
      cutting = false
    })
    while (cutting) {
      await log.append([note('during', `${appended}`)])
      appended += 1
    }
    await done
    ok(appended > 0)
    const from = await log.starts(['turns'])
    const during = (await all(log.read('turns', { from }))).filter(({ key }) => key === 'during')
    equal(during.length, appended)
    await log.close()
  })

  test('its file takes the room of the cut for new records', async () => {
    const { folder, log, allowed } = await cut('room', 'x'.repeat(500))
    const pages = (what: string): number => {
      using db = new DatabaseSync(join(folder, 'log.db'), { readOnly: true })
      return Object.values(db.prepare(`PRAGMA ${what}`).get()!)[0] as number
    }
    const size = pages('page_count')
    await log.cut(allowed)
    const free = pages('freelist_count')
    ok(free > size / 2, `${free} of ${size} pages are free`)
    await log.append(range(1000).map((i) => note(`k${i % 100}`, `${i}`)))
    ok(pages('freelist_count') < free)
    await log.close()
  })

  for (const [title, sql, code] of [
    ['without the record that allows it', 'DELETE FROM upgrades', 'log_truncated'],
    [
      'whose record that allows it does not match its checksum',
      'UPDATE upgrades SET checksum = checksum + 1',
      'log_truncated',
    ],
    ['without records behind the cut', 'DELETE FROM turns WHERE offset BETWEEN 2048 AND 2100', 'log_truncated'],
    [
      'without the last record of a partition before it',
      'DELETE FROM turns WHERE offset = (SELECT max(offset) FROM turns WHERE offset < 2048)',
      'log_truncated',
    ],
    [
      'whose note of it changed',
      "UPDATE meta SET value = replace(value, '2048', '3072') WHERE name = 'cut turns'",
      'data_unreadable',
    ],
    ['without the note of it', "DELETE FROM meta WHERE name = 'cut turns'", 'log_truncated'],
  ] as const)
    test(`one ${title} is refused (${code})`, async () => {
      await refuses(await changed(title, sql), { code })
    })

  test('one that begins beyond what its record allows is refused, whoever deleted the records', async () => {
    const folder = await changed('beyond', 'SELECT 1')
    const db = new DatabaseSync(join(folder, 'log.db'))
    const rows = db
      .prepare(
        'SELECT partition, max(offset) AS last FROM turns WHERE offset < 2700 GROUP BY partition ORDER BY partition',
      )
      .all() as { partition: number; last: number }[]
    const last = range(8).map((partition) => rows.find((row) => row.partition === partition)?.last ?? -1)
    const text = `2700 ${last.join(',')}`
    db.exec(`DELETE FROM turns WHERE offset < 2700 AND offset NOT IN (${last.join(',')})`)
    db.prepare('UPDATE meta SET value = ? WHERE name = ?').run(`${text} ${crc32(`turns ${text}`)}`, 'cut turns')
    db.close()
    await refuses(folder, { code: 'log_truncated', message: /turns starts at offset 2\d+/ })
  })
})
