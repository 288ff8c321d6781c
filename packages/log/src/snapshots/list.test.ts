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
  const list = snapshot.list('list', {
    keys: () => [...state.keys()],
    entry: (key, change) => [key, state.get(key) ?? null, ...(change === 'changed' ? [true] : [])],
  })
  await snapshot.open(openMemoryLog())
  return {
    move(key: string, value: unknown) {
      state.delete(key)
      state.set(key, value)
      list.note(key, 'moved')
    },
    change(key: string, value: unknown) {
      state.set(key, value)
      list.note(key, 'changed')
    },
    drop(key: string) {
      state.delete(key)
      list.note(key, 'changed')
    },
    rows: () => current.entries('list', '').length,
    bytes: () => [...current.rows()].reduce((sum, [, , row]) => sum + row!.length, 0),
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
/** The list of the entries, of which a later one of a key replaces those before. */
const listOf = (entries: readonly unknown[]): [string, unknown][] => {
  const list = new Map<string, unknown>()
  for (const [key, value, inPlace] of entries as [string, unknown, true?][]) {
    if (!inPlace || value === null) list.delete(key)
    if (value !== null) list.set(key, value)
  }
  return [...list]
}

test('a list of any length is read as it was written, in its order; whole it takes as few rows as there are entries for', async (t) => {
  const state = new Map<string, unknown>()
  const one = await opened(t, state)
  for (const count of [0, 1, 17, 3_000, 40, 3_000, 1, 0]) {
    for (const key of state.keys()) one.drop(key)
    for (let i = 0; i < count; i += 1) one.move(`key ${count - i}`, [i, 'x'.repeat(i % 60)])
    await one.save()
    assert.deepEqual(listOf(await one.load()), [...state])
  }
  // The last but one was written whole, since there were more entries than twice the keys and 1,024.
  assert.equal(one.rows(), 2)
  for (let i = 0; i < 3_000; i += 1) one.move(`key ${i}`, 'x'.repeat(30))
  await one.save()
  assert.ok(one.rows() >= 8 && one.rows() <= 12, `${one.rows()} rows`)
  await one.close()
})

test('a snapshot appends what changed, until there are twice as many entries as keys and 1,024 more; then it writes the list whole', async (t) => {
  const state = new Map<string, unknown>()
  let written = 0
  const one = await opened(t, state, () => (written += 1))
  for (let i = 0; i < 2_000; i += 1) one.move(`${i}`, [i])
  await one.save()
  const entries: number[] = []
  for (let n = 0; n < 160; n += 1) {
    written = 0
    const last = 2_000 + 20 * n
    for (let i = last; i < last + 20; i += 1) {
      one.move(`${i}`, [i])
      one.drop(`${i - 2_000}`)
    }
    one.change(`${last + 10}`, ['changed'])
    one.change(`${last - 7}`, ['changed'])
    await one.save()
    entries.push((await one.load()).length)
    assert.deepEqual(listOf(await one.load()), [...state])
    assert.equal(written, entries[n] === 2_000 ? 2 : 1, `${written} rows, ${entries[n]} entries`)
  }
  // 41 with each snapshot.
  const first = entries.indexOf(2_000)
  assert.deepEqual([entries[0], entries[first - 1], entries[first + 1]], [2_041, 2_000 + 41 * first, 2_041])
  assert.equal(first, Math.floor((2_000 + 1_024) / 41))
  await one.close()
})

test('an entry that is gone when its turn comes is removed; after a snapshot that failed the next one has its changes', async (t) => {
  const state = new Map<string, unknown>()
  let onSet: () => void = () => void state.delete('2999')
  const one = await opened(t, state, () => onSet())
  for (let i = 0; i < 3_000; i += 1) one.move(`${i}`, 'x'.repeat(50))
  await one.save()
  assert.deepEqual(listOf(await one.load()), [...state])
  assert.equal(state.size, 2_999)
  let fails = 1
  onSet = () => {
    if ((fails -= 1) === 0) throw new Error('disk full')
  }
  one.move('5', 1)
  one.change('6', 2)
  one.move('7', 3)
  await one.save()
  assert.equal(listOf(await one.load()).at(-1)![0], '2998')
  one.drop('8')
  one.move('5', 4)
  one.change('7', 5)
  await one.save()
  assert.deepEqual(listOf(await one.load()), [...state])
  assert.deepEqual([...state.keys()].slice(-3), ['2998', '7', '5'])
  await one.close()
})

test('a few long entries that change with each snapshot do not make the file many times as long as the list', async (t) => {
  const state = new Map<string, unknown>()
  const one = await opened(t, state)
  const long = 'x'.repeat(8_000)
  for (let i = 0; i < 4_000; i += 1) one.move(`${i}`, i < 20 ? long : '')
  await one.save()
  const whole = one.bytes()
  let most = 0
  for (let n = 0; n < 60; n += 1) {
    for (let i = 0; i < 20; i += 1) one.move(`${i}`, long)
    await one.save()
    most = Math.max(most, one.bytes())
  }
  assert.ok(most > 2_000_000 && most < 2 * whole + 3 * 1024 * 1024, `${whole} bytes, at most ${most}`)
  assert.deepEqual(listOf(await one.load()), [...state])
  await one.close()
})
