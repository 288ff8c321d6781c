/** A log on a file system that is mounted read-only, as a backup is. Needs root to mount one. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openEmbeddedLog, type EmbeddedLog } from './log.ts'

const SCHEMAS = { 'T.v1': '"string"' }
const mount = (...args: string[]): boolean => spawnSync('mount', args).status === 0

test('a log that was closed is read on a read-only file system', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-log-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
  await log.append([{ topic: 'turns', key: 'k', schema: 'T.v1', payload: Buffer.from('\x02a'), timestamp: 1 }])
  await log.close()
  if (!mount('--bind', folder, folder)) return t.skip('mount is not permitted')
  try {
    assert.ok(mount('-o', 'remount,bind,ro', folder))
    const found = await openEmbeddedLog({ folder, readOnly: true })
    assert.equal((await found.at({ topic: 'turns', partition: await partitionOf(found), offset: 0 }))?.key, 'k')
    await found.close()
    await assert.rejects(openEmbeddedLog({ folder, schemas: SCHEMAS }), { code: 'data_unreadable' })
  } finally {
    spawnSync('umount', [folder])
  }
})

const partitionOf = async (log: EmbeddedLog): Promise<number> => {
  const ends = (await log.ends(['turns'])).turns ?? {}
  return Number(Object.entries(ends).find(([, end]) => end > 0)?.[0])
}
