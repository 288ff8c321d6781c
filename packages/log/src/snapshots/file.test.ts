import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { seeded } from '../../../../test/kit/random.ts'
import { KEYS_OF_STEP } from './file-tables.ts'
import { SnapshotFile } from './file.ts'

test('a value written after a rolled back transaction is stored', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  const value = Buffer.from('value')
  try {
    const file = new SnapshotFile(join(folder, 'a.db'))
    file.begin()
    file.set('turns', 'k', value)
    file.rollback()
    file.begin()
    file.set('turns', 'k', value)
    file.commit()
    await file.close()
    const reopened = new SnapshotFile(join(folder, 'a.db'))
    assert.deepEqual(Buffer.from(reopened.get('turns', 'k')!), value)
    await reopened.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('an entry that is written as a new one and is there already has the later value, and counts once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = new SnapshotFile(join(folder, 'a.db'))
  file.begin()
  for (const value of ['first', 'second']) file.set('turns', 'k', Buffer.from(value), true)
  file.set('turns', 'other', Buffer.from('third'))
  file.set('turns', 'other', Buffer.from('fourth'))
  file.commit()
  await file.close()
  // Opening it compares the number of entries with the tally.
  const reopened = new SnapshotFile(join(folder, 'a.db'))
  const read = ['k', 'other'].map((key) => Buffer.from(reopened.get('turns', key)!).toString())
  assert.deepEqual(read, ['second', 'fourth'])
  await reopened.close()
})

test('the names of empty tables and queues are deleted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  const path = join(folder, 'a.db')
  const value = Buffer.from('value')
  try {
    const file = new SnapshotFile(path)
    for (let round = 0; round < 50; round += 1) {
      file.begin()
      file.set(`kept ${round}`, 'k', value)
      for (let i = 0; i < 100; i += 1) {
        file.enqueue(`queue ${round} ${i}`, 'turn')
        file.set(`table ${round} ${i}`, 'k', value)
      }
      file.commit()
      file.begin()
      for (let i = 0; i < 100; i += 1) {
        file.dequeue(`queue ${round} ${i}`, 'turn')
        file.delete(`table ${round} ${i}`, 'k')
      }
      file.commit()
    }
    await file.close()
    const db = new DatabaseSync(path)
    const { names } = db.prepare('SELECT count(*) AS names FROM names').get() as { names: number }
    db.close()
    assert.ok(names <= 1024 + 201, `${names} of 10050 names`)
    const reopened = new SnapshotFile(path)
    for (let round = 0; round < 50; round += 1) {
      assert.deepEqual(Buffer.from(reopened.get(`kept ${round}`, 'k')!), value)
      assert.deepEqual([reopened.get(`table ${round} 1`, 'k'), reopened.count(`queue ${round} 1`)], [undefined, 0])
    }
    await reopened.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a key that changed on the disk, with its value, is found when the file is opened', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'a.db')
  const file = new SnapshotFile(path)
  for (const key of ['a', 'b', 'c']) file.set('turns', key, Buffer.from(key))
  await file.close()
  const db = new DatabaseSync(path)
  db.exec("UPDATE entries SET key = 'd' WHERE key = 'b'")
  db.close()
  assert.throws(() => new SnapshotFile(path), /entries of turns are missing or have other keys/)
})

test('the entries of a queue are in the order in which they were added', async (t) => {
  const path = newPath(t)
  const file = new SnapshotFile(path)
  file.enqueue('pending 3', 'turn 1')
  file.enqueue('pending 3', 'turn two words')
  assert.deepEqual(file.page('pending 3', 0), [
    [1, 'turn 1'],
    [2, 'turn two words'],
  ])
  assert.deepEqual(file.pageBack('pending 3', 2, 5), [[1, 'turn 1']])
  assert.ok(file.queued('pending 3', 'turn 1'))
  file.dequeue('pending 3', 'turn two words')
  assert.equal(file.count('pending 3'), 1)
  await file.close()
})

const newPath = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return join(folder, 'a.db')
}

const KEYS = Array.from({ length: 9 }, (_, i) => `key ${i}`)
const NAMES = ['sessions', 'further', 'pending 1 k', 'pending 2 k']
const fill = async (path: string): Promise<void> => {
  const file = new SnapshotFile(path)
  file.begin()
  file.setMeta('version', 'v')
  file.setMeta('reached', '[["turns",[[0,{"next":9,"id":"r"}]]]]')
  for (const name of NAMES)
    for (const key of KEYS) {
      if (name.startsWith('pending')) file.enqueue(name, key)
      else file.set(name, key, Buffer.from(`${name} of ${key}`))
    }
  file.commit()
  file.begin()
  file.delete('sessions', 'key 3')
  file.set('sessions', 'key 4', Buffer.from('changed'))
  file.dequeue('pending 1 k', 'key 3')
  file.commit()
  await file.close()
}

/** All that a service can read; null: the snapshot was discarded. */
const contents = async (path: string): Promise<unknown> => {
  let file: SnapshotFile | null = null
  try {
    file = new SnapshotFile(path)
    const open = file
    // Without its version a file is taken for an empty one, and is deleted.
    if (open.meta('version') === undefined) return null
    return [
      open.meta('version'),
      JSON.parse(open.meta('reached') ?? ''),
      NAMES.map((name) => [
        KEYS.map((key) => [
          Buffer.from(open.get(name, key) ?? []).toString(),
          open.has(name, key),
          open.queued(name, key),
        ]),
        open.entries(name, ''),
        [open.page(name, 0), open.pageBack(name, 1e9, 99), open.count(name)],
      ]),
      open.nonEmptyQueues('pending '),
    ]
  } catch {
    return null
  } finally {
    await file?.close()
  }
}

test('after any row was deleted or changed on the disk a snapshot is discarded, or read as it was', async (t) => {
  const path = newPath(t)
  await fill(path)
  const whole = await contents(path)
  assert.ok(whole)
  const bytes = readFileSync(path)
  const { below, pick } = seeded(7)
  const seen = new Map<string, number>()
  for (let i = 0; i < 400; i += 1) {
    writeFileSync(path, bytes)
    const db = new DatabaseSync(path)
    const table = pick(['meta', 'names', 'entries', 'queued'])
    const rows = db.prepare(`SELECT * FROM ${table}`).all() as Row[]
    const row = pick(rows)
    const columns = Object.keys(row)
    const where = columns.map((column) => `"${column}" IS ?`).join(' AND ')
    const what = pick(['delete', ...columns])
    const sql =
      what === 'delete' ? `DELETE FROM ${table} WHERE ${where}` : `UPDATE ${table} SET "${what}" = ? WHERE ${where}`
    const changed = what === 'delete' ? [] : [flipped(row[what]!, below)]
    try {
      db.prepare(sql).run(...changed, ...Object.values(row))
    } catch (error) {
      assert.match(String(error), /UNIQUE/)
    }
    db.close()
    const read = await contents(path)
    if (read !== null) assert.deepEqual(read, whole, `${table}: ${what} of ${JSON.stringify(row)}`)
    seen.set(`${table} ${what}`, (seen.get(`${table} ${what}`) ?? 0) + 1)
  }
  assert.ok(seen.size >= 14, [...seen.keys()].join(', '))
})

test('a value that got another type on the disk is damage, after which the next start does not use the file', async (t) => {
  for (const type of ['CAST(value AS TEXT)', '7', '7.5', "x'00'"]) {
    const path = newPath(t)
    await fill(path)
    const db = new DatabaseSync(path)
    db.exec(`UPDATE entries SET value = ${type} WHERE key = 'key 2'`)
    db.close()
    for (const use of [
      (file: SnapshotFile) => file.get('sessions', 'key 2'),
      (file: SnapshotFile) => file.entries('sessions', ''),
      (file: SnapshotFile) => [...file.rows()],
    ]) {
      const copy = newPath(t)
      copyFileSync(path, copy)
      const file = new SnapshotFile(copy)
      assert.throws(() => use(file), { code: 'snapshot_damaged' }, type)
      await file.close()
      assert.equal(existsSync(copy), false)
    }
  }
})

test('after any bit of the file flipped, of its indexes too, a snapshot is discarded, or read as it was', async (t) => {
  const path = newPath(t)
  await fill(path)
  const whole = await contents(path)
  const bytes = readFileSync(path)
  const used = Array.from(bytes.keys()).filter((at) => bytes[at] !== 0)
  const { below, pick } = seeded(8)
  let discarded = 0
  for (let i = 0; i < 800; i += 1) {
    const copy = Buffer.from(bytes)
    const at = pick(used)
    copy[at] = copy[at]! ^ (1 << below(8))
    for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true })
    writeFileSync(path, copy)
    const read = await contents(path)
    if (read === null) discarded += 1
    else assert.deepEqual(read, whole, `byte ${at % 8192} of page ${1 + Math.floor(at / 8192)}`)
  }
  assert.ok(discarded > 400, `${discarded}`)
})

type Row = Record<string, string | number | Uint8Array>

/** The value with one bit changed, as damage on the disk leaves it. */
const flipped = (value: Row[string], below: (limit: number) => number): Row[string] => {
  if (typeof value === 'number') return value ^ (1 << below(8))
  const bytes = Buffer.from(value as Uint8Array)
  const at = below(bytes.length)
  bytes[at] = bytes[at]! ^ (1 << below(typeof value === 'string' ? 3 : 8))
  return typeof value === 'string' ? bytes.toString('latin1') : bytes
}

test('the keys of a file are read in steps of 256', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-keys-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'a.db')
  const file = new SnapshotFile(path)
  file.begin()
  for (let i = 0; i < 5_000; i += 1) file.set('turns', `${i}`, Buffer.from('x'))
  for (let i = 0; i < 300; i += 1) file.enqueue('waiting', `${i}`)
  file.commit()
  await file.close()
  const again = new SnapshotFile(path, { verified: false })
  assert.equal([...again.verifying()].length, Math.floor(5_300 / KEYS_OF_STEP))
  await again.close()
})
