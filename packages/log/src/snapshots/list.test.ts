import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openMemoryLog } from '../memory/log.ts'
import { SnapshotFile } from './file.ts'
import { Snapshot } from './snapshot.ts'

/** A snapshot with the list of the keys and values of `state`. */
const opened = async (t: TestContext, state: Map<string, unknown>, onSet: () => void = () => undefined) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-list-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let current: SnapshotFile
  const file = (): SnapshotFile => {
    const one = new SnapshotFile(join(folder, 'list.db'))
    const { set } = one
    one.set = (...args) => {
      onSet()
      set.apply(one, args)
    }
    return (current = one)
  }
  const settings = { folder, records: 1e9, ms: Infinity, cacheWeight: 8, logLine: () => undefined, file }
  const snapshot = new Snapshot(settings, 'list', { number: 1, migrations: {} })
  const list = snapshot.list('list', { keys: () => [...state.keys()], value: (key) => state.get(key) })
  await snapshot.open(openMemoryLog())
  return {
    rows: () => current.entries('list', '').length,
    async load() {
      const values: unknown[] = []
      await list.load((value) => void values.push(value))
      return values
    },
    async save() {
      void snapshot.after({ topic: 'turns', partition: 0, offset: 0, id: '' })
      await snapshot.save()
    },
    close: () => snapshot.close({ save: false }),
  }
}
test('a list of any length is read as it was written, in its order, and takes as few rows when it is shorter', async (t) => {
  const state = new Map<string, unknown>()
  const one = await opened(t, state)
  for (const count of [0, 1, 17, 3_000, 40, 3_000, 1, 0]) {
    state.clear()
    for (let i = 0; i < count; i += 1) state.set(`key ${count - i}`, [i, 'x'.repeat(i % 60)])
    await one.save()
    assert.deepEqual(await one.load(), [...state.values()])
    const rows = one.rows()
    assert.ok(rows <= 1 + (count * 45) / 16_384 && rows >= (count * 30) / 16_384, `${rows} rows of ${count}`)
  }
  assert.equal(one.rows(), 0)
  await one.close()
})

test('a value that is gone when its turn comes is left out; after a snapshot that failed the next one is whole', async (t) => {
  const state = new Map<string, unknown>(Array.from({ length: 3_000 }, (_, i) => [`${i}`, 'x'.repeat(50)]))
  let onSet: () => void = () => void state.delete('2999')
  const one = await opened(t, state, () => onSet())
  await one.save()
  assert.equal((await one.load()).length, 2_999)
  let fails = 3
  onSet = () => {
    if ((fails -= 1) === 0) throw new Error('disk full')
  }
  state.clear()
  for (let i = 0; i < 6_000; i += 1) state.set(`${i}`, 1e6 + i)
  await one.save()
  assert.equal((await one.load()).length, 2_999)
  state.delete('0')
  await one.save()
  assert.deepEqual(await one.load(), [...state.values()])
  await one.close()
})
