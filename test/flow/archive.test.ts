/** A trained log is archived, removed with everything else, and restored from the archive alone. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { renameSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import { TOPICS } from '@instar/events/flow'
import { test } from 'node:test'
import { folder, instar } from '../kit/cli.ts'
import { open, talkTwice } from './history.ts'

/** Every row of the log's file: offset, partition, time, schema, key, bytes, checksum. */
const rows = (data: string): unknown => {
  const db = new DatabaseSync(join(data, 'log', 'log.db'), { readOnly: true })
  try {
    return TOPICS.map((topic) =>
      db
        .prepare(`SELECT t.*, s.name, s.avro FROM "${topic}" t JOIN schemas s ON s.id = t.schema ORDER BY offset`)
        .all()
        .map(({ schema: _, ...row }) => ({
          ...row,
          payload: createHash('sha256')
            .update(row.payload as Uint8Array)
            .digest('hex'),
        })),
    )
  } finally {
    db.close()
  }
}

test(
  'a log that made versions is the same file of rows after a restore, and all of it verifies',
  { timeout: 280_000 },
  async () => {
    const parent = folder()
    const [data, gone, place] = [join(parent, 'data'), join(parent, 'gone'), join(parent, 'archive')]
    const running = await open(data)
    await talkTwice(running, 0)
    await running.stop()
    const archived = await instar(['archive', '--to', place, '--json'], { INSTAR_DATA: data })
    equal(archived.code, 0, archived.err)
    renameSync(data, gone)

    const restored = await instar(['archive', 'restore', '--from', place, '--json'], { INSTAR_DATA: data })
    equal(restored.code, 0, restored.err)
    deepEqual(rows(data), rows(gone))
    const verified = await instar(['verify', 'all', '--json'], { INSTAR_DATA: data })
    equal(verified.code, 0, verified.err)
    const { ok: holds, batches } = verified.json as { ok: boolean; batches: { ok: boolean; mode: string }[] }
    ok(holds)
    ok(batches.length > 0 && batches.every(({ mode }) => mode === 'recompute'), JSON.stringify(batches))

    const again = await open(data)
    await again.stop()
  },
)
