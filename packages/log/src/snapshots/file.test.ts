import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
