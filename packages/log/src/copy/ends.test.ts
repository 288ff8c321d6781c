/** A log is copied and archived while others write to it. */
import { getBlob, putBlob } from '../blobs.ts'
import { Archive, copyLog, openFolderStore, openMemoryLog, writeArchive, type EventLog } from '../index.ts'
import { schemaTexts } from '@instar/events'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { note } from '../../../../test/kit/event-log/harness.ts'

/** A log whose ends are those of several brokers, asked at once: after one has answered a blob and its turn are written. */
const written = (): EventLog => {
  const log = openMemoryLog()
  let count = 0
  const write = async (): Promise<void> => {
    const name = await putBlob(log, Buffer.from(`blob ${count}`), 1000)
    await log.append([note(name, 'turn')])
    count += 1
  }
  const ends: EventLog['ends'] = async (topics) => {
    const ofBlobs = await log.ends(topics.filter((topic) => topic === 'blobs'))
    await write()
    return { ...(await log.ends(topics)), ...ofBlobs }
  }
  return new Proxy(log, {
    get: (target, name) => {
      if (name === 'ends') return ends
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** Names of blobs of the turns that the log has. */
const requireBlobs = async (log: EventLog): Promise<number> => {
  let turns = 0
  for await (const records of log.read('turns'))
    for (const { key } of records) {
      await getBlob(log, key, 1000)
      turns += 1
    }
  return turns
}

test('a copy of a log in use has the blobs of all records that it has', async () => {
  const log = written()
  const to = openMemoryLog()
  await copyLog({ from: log, to })
  assert.ok((await requireBlobs(to)) > 0)
})

test('an archive of a log in use has the blobs of all records that it has', async (t) => {
  const place = mkdtempSync(join(tmpdir(), 'instar-ends-'))
  t.after(() => rmSync(place, { recursive: true }))
  const log = written()
  const store = openFolderStore(place, true)
  await writeArchive({ from: log, schemas: () => ({ ...schemaTexts(), 'Note.v1': '"bytes"' }), to: store })
  const to = openMemoryLog()
  await copyLog({ from: await Archive.open(store), to })
  await store.close()
  assert.ok((await requireBlobs(to)) > 0)
})
