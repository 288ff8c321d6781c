import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
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

test('a key of a queue that changed on the disk makes the snapshot damaged', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  const path = join(folder, 'a.db')
  try {
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
    for (const read of ['page', 'pageBack'] as const) {
      const whole = new SnapshotFile(path)
      whole.enqueue('pending 4', 'turn 1')
      await whole.close()
      const db = new DatabaseSync(path)
      db.exec("UPDATE queued SET key = replace(key, 'turn 1', 'turn 3')")
      db.close()
      const damaged = new SnapshotFile(path)
      const reading = () => (read === 'page' ? damaged.page('pending 4', 0) : damaged.pageBack('pending 4', 9, 1))
      assert.throws(reading, { code: 'snapshot_damaged' })
      await damaged.close()
      assert.ok(!existsSync(path), 'the next start reads the log')
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
