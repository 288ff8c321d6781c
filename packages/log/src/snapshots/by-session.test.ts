import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '../index.ts'
import { SnapshotFile } from './file.ts'
import { Snapshot, ROW_TURNS } from './snapshot.ts'

type Note = { note: string }

test('a table by turn has what was set and not deleted, in rows that do not grow with a session', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-by-session-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let longest = 0
  let written: string[] = []
  const file = (): SnapshotFile => {
    const opened = new SnapshotFile(join(folder, 'test.db'))
    const { set } = opened
    opened.set = (table, key, value) => {
      longest = Math.max(longest, value.length)
      written.push(`${table} ${key}`)
      set.call(opened, table, key, value)
    }
    return opened
  }
  const open = async () => {
    const settings = { folder, records: 1e9, ms: Infinity, cacheWeight: 8, logLine: assert.fail, file }
    const snapshot = new Snapshot(settings, 'test', { number: 1, migrations: {} })
    const table = snapshot.bySession<Note>('notes', {
      pack: ({ note }) => note,
      unpack: (packed) => ({ note: packed as string }),
      json: true,
    })
    await snapshot.open(openMemoryLog())
    return {
      table,
      close: () => snapshot.close({ save: false }),
      async save() {
        written = []
        void snapshot.after({ topic: 'turns', partition: 0, offset: 0, id: '' })
        await snapshot.save()
      },
    }
  }
  let seed = 5
  const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const truth = new Map<string, Note>()
  const { table, save, close } = await open()
  for (let i = 0; i < 6000; i += 1) {
    const turn = `s${Math.floor(random() * 3)}.t${Math.floor(random() * 600)}`
    if (random() < 0.7) {
      truth.set(turn, { note: `${i}` })
      table.set(turn, { note: `${i}` })
    } else {
      truth.delete(turn)
      table.delete(turn)
    }
    if (i % 500 === 499) await save()
  }
  for (let session = 0; session < 3; session += 1)
    for (let i = 0; i < 600; i += 1) {
      const turn = `s${session}.t${i}`
      assert.deepEqual(table.get(turn), truth.get(turn), turn)
      assert.equal(table.has(turn), truth.has(turn))
    }
  assert.ok(truth.size > 3 * 2 * ROW_TURNS)
  assert.ok(longest < ROW_TURNS * 24, `${longest} bytes`)
  for (let i = 0; i < ROW_TURNS; i += 1) table.set(`new.${i}`, { note: 'first' })
  table.set('new.last', { note: 'further' })
  await save()
  assert.deepEqual(written.sort(), ['further notes new.last', 'notes new'])
  table.set('new.last', { note: 'changed' })
  await save()
  assert.deepEqual(written, ['further notes new.last'])
  await close()
})
