/** The partition index of the embedded log: full blocks, the rows after them, and logs of format 1. */
import { InstarError } from '@instar/events/errors'
import { openEmbeddedLog, partitionOf } from '../index.ts'
import { openReading, storedCounts } from './file.ts'
import { SqliteStore } from './sqlite-store.ts'
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { openEmbedded } from '../../../../test/kit/event-log/embedded.ts'
import { all, note, range, SCHEMAS, textOf, type Opened } from '../../../../test/kit/event-log/harness.ts'

const RECORDS = 3000
const keys = range(40).map((i) => `k${i}`)
const PARTITIONS = 8

/** Appends records from `from` to `to`: record `i` has key `i mod 40`, text `i` and timestamp `10 i`. */
const write = async ({ log }: Opened, from: number, to: number): Promise<void> => {
  for (let i = from; i < to; i += 100)
    await log.append(
      range(Math.min(100, to - i)).map((j) => ({
        ...note(keys[(i + j) % keys.length]!, String(i + j)),
        timestamp: (i + j) * 10,
      })),
    )
}

const of = (key: string, from = 0, to = RECORDS): string[] =>
  range(RECORDS)
    .filter((i) => i >= from && i < to && keys[i % keys.length] === key)
    .map(String)

/** One above the last offset of each partition. */
const endsOf = (records: number): Record<number, number> =>
  Object.fromEntries(
    range(PARTITIONS).map((partition) => [
      partition,
      1 + Math.max(-1, ...range(records).filter((i) => partitionOf(keys[i % keys.length]!, PARTITIONS) === partition)),
    ]),
  )

const checkReads = async (log: Opened['log'], records: number): Promise<void> => {
  assert.deepEqual((await log.ends(['turns'])).turns, endsOf(records))
  for (const key of keys) assert.deepEqual((await all(log.read('turns', { key }))).map(textOf), of(key, 0, records))
}

const feature = (title: string, body: (opened: Opened, folder: string) => Promise<void>): void => {
  test(title, { timeout: 60_000 }, async () => {
    const opened = await openEmbedded()
    try {
      await body(opened, opened.elsewhere!.place)
    } finally {
      await opened.remove()
    }
  })
}

describe('embedded log: the partition index', () => {
  feature('finds records that are appended before and between reads of one reader', async (opened, folder) => {
    await write(opened, 0, 1000)
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    await checkReads(reader, 1000)
    await write(opened, 1000, 1030)
    await checkReads(reader, 1030)
    await write(opened, 1030, RECORDS)
    await checkReads(reader, RECORDS)
    await checkReads(opened.log, RECORDS)
    await reader.close()
  })

  feature('continues after a reopening, within and at the end of a block', async (opened) => {
    let log = opened.log
    for (const [from, to] of [
      [0, 700],
      [700, 1024],
      [1024, 2047],
      [2047, 2049],
      [2049, RECORDS],
    ] as const) {
      await write({ ...opened, log }, from, to)
      await log.close()
      log = await opened.reopen()
      await checkReads(log, to)
    }
  })

  feature('finds times and offsets in every block', async (opened) => {
    await write(opened, 0, RECORDS)
    const [key] = keys as [string]
    for (const i of [0, 1, 1000, 1023, 1024, 1025, 2500, RECORDS - 1]) {
      assert.deepEqual(
        (await all(opened.log.read('turns', { key, from: { time: i * 10 } }))).map(textOf),
        of(key, i),
        `from time ${i * 10}`,
      )
      const from = {
        turns: Object.fromEntries(
          range(PARTITIONS).map((partition) => [partition, Math.min(i, endsOf(RECORDS)[partition]!)]),
        ),
      }
      assert.deepEqual((await all(opened.log.read('turns', { key, from }))).map(textOf), of(key, i), `from offset ${i}`)
    }
  })

  feature(
    'a read of a key in small pages passes over few records at a time, and finds all of the key',
    async (opened, folder) => {
      await write(opened, 0, RECORDS)
      const db = openReading(folder)
      const store = new SqliteStore(db, storedCounts(db))
      const [key] = keys as [string]
      const scan = { from: 0, to: RECORDS, partition: 0, key: 'none', maxRecords: 512 }
      for (const [maxBytes, next] of [
        [1, 64],
        [32 * 1024, 256],
        [1 << 20, RECORDS],
      ] as const)
        assert.equal(store.scan('turns', { ...scan, maxBytes }).next, next, `${maxBytes} bytes`)
      db.close()
      for (const maxBytes of [1, 32 * 1024])
        assert.deepEqual((await all(opened.log.read('turns', { key, maxBytes }))).map(textOf), of(key))
    },
  )

  feature('is created by a writer for a log of format 1, which readers refuse', async (opened, folder) => {
    await write(opened, 0, RECORDS)
    await opened.log.close()
    const db = new DatabaseSync(join(folder, 'log.db'))
    for (const topic of ['turns', 'scores', 'updates', 'weights', 'blobs'])
      db.exec(`DROP TABLE ${topic}_blocks; CREATE INDEX ${topic}_partition ON ${topic} (partition)`)
    db.exec(`UPDATE meta SET value = '1' WHERE name = 'format'`)
    db.close()
    await assert.rejects(
      openEmbeddedLog({ folder, readOnly: true }),
      (error) =>
        error instanceof InstarError && error.code === 'data_unreadable' && error.message.includes('earlier build'),
    )
    const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    await checkReads(log, RECORDS)
    await log.close()
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    await checkReads(reader, RECORDS)
    await reader.close()
  })

  /** Sets the partition of an offset in the file's block index. */
  const setIndexed = (folder: string, offset: number, partition: number): void => {
    const db = new DatabaseSync(join(folder, 'log.db'))
    const block = Math.floor(offset / 1024)
    const { partitions } = db.prepare('SELECT partitions FROM turns_blocks WHERE block = ?').get(block) as {
      partitions: Uint8Array
    }
    new DataView(partitions.buffer, partitions.byteOffset).setUint16(2 * (offset % 1024), partition, true)
    db.prepare('UPDATE turns_blocks SET partitions = ? WHERE block = ?').run(partitions, block)
    db.close()
  }

  for (const partition of [0, PARTITIONS - 1, PARTITIONS, 0x1003, 0xffff])
    feature(
      `is read from the rows where a block has the partition ${partition} in places of others`,
      async (opened, folder) => {
        await write(opened, 0, 2500)
        await opened.log.close()
        for (const offset of [0, 1023, 2047]) setIndexed(folder, offset, partition)
        const reader = await openEmbeddedLog({ folder, readOnly: true })
        await checkReads(reader, 2500)
        assert.equal((await all(reader.read('turns'))).length, 2500)
        const log = await opened.reopen()
        await write({ ...opened, log }, 2500, RECORDS)
        await checkReads(log, RECORDS)
        await checkReads(reader, RECORDS)
        await reader.close()
      },
    )

  for (const [what, value] of [
    ['another type', 'CAST(partitions AS TEXT)'],
    ['another length', 'substr(partitions, 1, 2046)'],
  ] as const)
    feature(`is read from the rows where a block got ${what} on the disk`, async (opened, folder) => {
      await write(opened, 0, 2500)
      await opened.log.close()
      const db = new DatabaseSync(join(folder, 'log.db'))
      // A bit of the row's header gives it a type that its table refuses.
      db.exec(`CREATE TABLE untyped (block INTEGER PRIMARY KEY, partitions);
        INSERT INTO untyped SELECT block, iif(block = 0, ${value}, partitions) FROM turns_blocks;
        DROP TABLE turns_blocks; ALTER TABLE untyped RENAME TO turns_blocks`)
      db.close()
      const reader = await openEmbeddedLog({ folder, readOnly: true })
      assert.equal((await all(reader.read('turns'))).length, 2500)
      await checkReads(reader, 2500)
      const log = await opened.reopen()
      await write({ ...opened, log }, 2500, RECORDS)
      await checkReads(log, RECORDS)
      await reader.close()
    })

  feature(
    'a read of a key throws log_truncated where a bit of an inner page hides rows from a search',
    async (opened, folder) => {
      await write(opened, 0, RECORDS)
      await opened.log.close()
      const path = join(folder, 'log.db')
      const bytes = readFileSync(path)
      const db = new DatabaseSync(path, { readOnly: true })
      const { root } = db.prepare("SELECT rootpage AS root FROM sqlite_schema WHERE name = 'turns'").get() as {
        root: number
      }
      const { page_size: size } = db.prepare('PRAGMA page_size').get() as { page_size: number }
      db.close()
      const page = (root - 1) * size
      assert.equal(bytes[page], 5, 'an inner page')
      // A cell is the number of a page, and the highest offset in it, a varint of two bytes from 128 on.
      const cell = page + bytes.readUInt16BE(page + 12 + 2 * 3) + 4
      bytes[cell]! ^= 1
      writeFileSync(path, bytes)
      const reader = await openEmbeddedLog({ folder, readOnly: true })
      assert.equal((await all(reader.read('turns'))).length, RECORDS)
      const read = await Promise.allSettled(keys.map(async (key) => all(reader.read('turns', { key }))))
      for (const [i, one] of read.entries())
        if (one.status === 'fulfilled') assert.deepEqual(one.value.map(textOf), of(keys[i]!))
        else assert.equal((one.reason as InstarError).code, 'log_truncated')
      assert.ok(read.some(({ status }) => status === 'rejected'))
      await reader.close()
    },
  )

  feature('lacks no record whose row has another partition than its block', async (opened, folder) => {
    await write(opened, 0, 2048)
    await opened.log.close()
    const db = new DatabaseSync(join(folder, 'log.db'))
    // The last record of each partition: by its row's partition, one would be beyond the end of that partition.
    db.exec(`UPDATE turns SET partition = (partition + 1) % ${PARTITIONS} WHERE offset IN
      (SELECT max(offset) FROM turns GROUP BY partition)`)
    db.close()
    const log = await opened.reopen()
    const records = await all(log.read('turns'))
    assert.equal(records.length, 2048)
    assert.deepEqual((await log.ends(['turns'])).turns, endsOf(2048))
    for (const record of records.filter(({ damaged }) => damaged))
      assert.equal(record.partition, partitionOf(record.key, PARTITIONS))
    assert.equal(
      records.filter(({ damaged }) => damaged).length,
      new Set(keys.map((key) => partitionOf(key, PARTITIONS))).size,
    )
  })

  feature(
    'of a block with a number that is no partition and rows that are missing: log_truncated',
    async (opened, folder) => {
      await write(opened, 0, RECORDS)
      await opened.log.close()
      setIndexed(folder, 1024, 0xffff)
      const db = new DatabaseSync(join(folder, 'log.db'))
      db.exec('DELETE FROM turns WHERE offset = 1500')
      db.close()
      const reader = await openEmbeddedLog({ folder, readOnly: true })
      await assert.rejects(reader.ends(['turns']), { code: 'log_truncated', message: /offsets 1500 to 1500/ })
      await reader.close()
    },
  )

  feature('without one of its blocks throws data_unreadable with the block', async (opened, folder) => {
    await write(opened, 0, RECORDS)
    await opened.log.close()
    const db = new DatabaseSync(join(folder, 'log.db'))
    db.exec('DELETE FROM turns_blocks WHERE block = 1')
    db.close()
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    await assert.rejects(
      reader.ends(['turns']),
      (error) =>
        error instanceof InstarError && error.code === 'data_unreadable' && error.message.includes('block 1 of turns'),
    )
    await reader.close()
  })
})
