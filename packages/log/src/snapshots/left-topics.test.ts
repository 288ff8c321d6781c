/** A topic that a state has left stays left, or the file is not used. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { recordId } from '@instar/events'
import { openMemoryLog } from '../memory/log.ts'
import type { EventLog, Offsets } from '../port.ts'
import { withChecksum } from './file-tables.ts'
import type { Snapshot } from './snapshot.ts'
import { openSnapshots } from './store.ts'

const TOPICS = ['turns', 'scores'] as const
const SCORE = { topic: 'scores', partition: 0, offset: 0 } as const

const aLog = async (): Promise<EventLog> => {
  const log = openMemoryLog({ partitions: { turns: 1, scores: 1 } })
  for (const topic of TOPICS)
    await log.append([{ topic, key: 's', schema: 'SessionClosed.v3', payload: Buffer.from('{}'), timestamp: 1 }])
  return log
}

const opened = async (log: EventLog, folder: string): Promise<{ snapshot: Snapshot; from: Offsets }> => {
  const store = openSnapshots(folder, { records: 1e9, ms: Infinity })
  const snapshot = store.of('test', { number: 1, migrations: {} })
  return { snapshot, from: await snapshot.open(log, TOPICS) }
}

/** A folder with the snapshot of a state that has read both topics and left one. */
const leaving = async (t: TestContext, log: EventLog): Promise<string> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-left-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const { snapshot } = await opened(log, folder)
  for (const topic of TOPICS) {
    const id = recordId((await log.at({ topic, partition: 0, offset: 0 }))!)
    await snapshot.after({ topic, partition: 0, offset: 0, id })
  }
  snapshot.leave('turns')
  await snapshot.close()
  return folder
}

const change = (folder: string, sql: string, ...values: string[]): void => {
  const db = new DatabaseSync(join(folder, 'test.db'))
  db.prepare(sql).run(...values)
  db.close()
}

const namesIn = (folder: string): string[] => {
  const db = new DatabaseSync(join(folder, 'test.db'))
  const names = db.prepare('SELECT name FROM meta ORDER BY name').all() as { name: string }[]
  db.close()
  return names.map(({ name }) => name)
}

test('a snapshot goes on without a topic that its state has left', async (t) => {
  const log = await aLog()
  const folder = await leaving(t, log)
  const { snapshot, from } = await opened(log, folder)
  assert.deepEqual([snapshot.left.list(), from], [['turns'], { scores: { 0: 1 } }])
  await snapshot.close()
})

test('so does one of a build that has them beside the positions', async (t) => {
  const log = await aLog()
  const folder = await leaving(t, log)
  const reached = JSON.stringify([['scores', [[0, { next: 1, id: recordId((await log.at(SCORE))!) }]]]])
  change(folder, "UPDATE meta SET value = ? WHERE name = 'reached'", withChecksum('reached', reached))
  const { snapshot, from } = await opened(log, folder)
  assert.deepEqual([snapshot.left.list(), from], [['turns'], { scores: { 0: 1 } }])
  await snapshot.close()
})

test('a row of the file that is gone or has another name makes no left topic one that was never read', async (t) => {
  const log = await aLog()
  const names = namesIn(await leaving(t, log))
  assert.deepEqual(names.includes('reached') && names.length >= 4, true, names.join())
  for (const name of names)
    for (const sql of ['DELETE FROM meta WHERE name = ?', "UPDATE meta SET name = name || 'x' WHERE name = ?"]) {
      const folder = await leaving(t, log)
      change(folder, sql, name)
      const { snapshot, from } = await opened(log, folder)
      const goesOn = Object.keys(from).length > 0
      assert.deepEqual(snapshot.left.list(), goesOn ? ['turns'] : [], `${name}: ${sql}`)
      await snapshot.close()
    }
})
