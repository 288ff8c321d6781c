import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
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
