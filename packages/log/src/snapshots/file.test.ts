import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { SnapshotFile } from './file.ts'

test('what is written after a write that failed is there when the file is opened again', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  const value = Buffer.from('value')
  try {
    const file = new SnapshotFile(join(folder, 'a.db'))
    file.begin()
    file.put('turns', 'k', value)
    file.rollback()
    file.begin()
    file.put('turns', 'k', value)
    file.commit()
    await file.close()
    const again = new SnapshotFile(join(folder, 'a.db'))
    assert.deepEqual(Buffer.from(again.get('turns', 'k')!), value)
    await again.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('names of tables and queues that hold nothing any more do not add up', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-snapshot-file-'))
  const path = join(folder, 'a.db')
  const value = Buffer.from('value')
  try {
    const file = new SnapshotFile(path)
    for (let round = 0; round < 50; round += 1) {
      file.begin()
      file.put(`kept ${round}`, 'k', value)
      for (let i = 0; i < 100; i += 1) {
        file.enqueue(`queue ${round} ${i}`, 'turn')
        file.put(`table ${round} ${i}`, 'k', value)
      }
      file.commit()
      file.begin()
      for (let i = 0; i < 100; i += 1) {
        file.dequeue(`queue ${round} ${i}`, 'turn')
        file.drop(`table ${round} ${i}`, 'k')
      }
      file.commit()
    }
    await file.close()
    const db = new DatabaseSync(path)
    const { names } = db.prepare('SELECT count(*) AS names FROM names').get() as { names: number }
    db.close()
    assert.ok(names <= 1024 + 201, `${names} of 10050 names`)
    const again = new SnapshotFile(path)
    for (let round = 0; round < 50; round += 1) {
      assert.deepEqual(Buffer.from(again.get(`kept ${round}`, 'k')!), value)
      assert.deepEqual([again.get(`table ${round} 1`, 'k'), again.count(`queue ${round} 1`)], [undefined, 0])
    }
    await again.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})
