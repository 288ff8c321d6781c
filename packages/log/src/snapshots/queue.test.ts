import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '../index.ts'
import { SnapshotFile, type FoldFile } from './file.ts'
import { StoredQueue } from './queue.ts'
import { Snapshot } from './snapshot.ts'

const random = (seed: number) => (): number => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed / 2 ** 32
}

test('the last keys of a stored queue are those of its iteration, and others are not read', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-queue-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let read = 0
  const file = (name: string): FoldFile => {
    const opened = new SnapshotFile(join(folder, `${name}.db`))
    return new Proxy<FoldFile>(opened, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          const result: unknown = (value as (...all: unknown[]) => unknown).apply(target, args)
          if (property === 'page' || property === 'pageBack') read += (result as unknown[]).length
          return result
        }
      },
    })
  }
  const settings = { folder, records: 1e9, ms: Infinity, cacheWeight: 1, logLine: () => undefined, file }
  const snapshot = new Snapshot(settings, 'test', { number: 1, migrations: {} })
  const queue = snapshot.queue('q')
  await snapshot.open(openMemoryLog())
  const chance = random(7)
  const all: string[] = []
  for (let i = 0; i < 6000; i += 1) {
    queue.add(`k${i}`)
    all.push(`k${i}`)
    if (chance() < 0.2) queue.delete(all.splice(Math.floor(chance() * all.length), 1)[0]!)
    if (i % 997 === 0) {
      void snapshot.after({ topic: 'turns', partition: 0, offset: i, id: '' })
      await snapshot.save()
    }
    if (i % 50 === 0) {
      const count = Math.floor(chance() * 700)
      read = 0
      assert.deepEqual(queue.last!(count), all.slice(Math.max(0, all.length - count)).reverse(), `${i}`)
      assert.ok(read <= count + 1500, `${read} entries read for ${count} of ${all.length}`)
    }
  }
  read = 0
  assert.deepEqual(queue.last!(64), all.slice(-64).reverse())
  assert.ok(read <= 64, `${read}`)
  await snapshot.close()
})

test('a queue has the same keys between any two steps of a snapshot, also for who began to read before', () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-queue-'))
  const file = new SnapshotFile(join(folder, 'q.db'))
  try {
    const queue = new StoredQueue({ file }, 'q')
    const save = (between: () => void): void => {
      file.begin()
      for (const step of queue.takeChanges()) {
        step()
        between()
      }
      file.commit()
      queue.commit()
    }
    const chance = random(11)
    const all = new Set<string>()
    for (let round = 0; round < 40; round += 1) {
      for (let i = 0; i < 30; i += 1) {
        const key = `k${Math.floor(chance() * 200)}`
        if (chance() < 0.6) {
          queue.add(key)
          all.add(key)
        } else {
          queue.delete(key)
          all.delete(key)
        }
      }
      // Each of these reads goes on by one key at each step, and sees all that is in the queue.
      const readers: { keys: string[]; left: Iterator<string> }[] = []
      save(() => {
        assert.deepEqual([...queue], [...all])
        assert.deepEqual(queue.last(20), [...all].slice(-20).reverse())
        assert.equal(queue.size, all.size)
        for (const key of [...all].slice(0, 3)) assert.ok(queue.has(key))
        readers.push({ keys: [], left: queue[Symbol.iterator]() })
        for (const { keys, left } of readers) {
          const next = left.next()
          if (next.done !== true) keys.push(next.value)
        }
      })
      for (const { keys, left } of readers) {
        for (let next = left.next(); next.done !== true; next = left.next()) keys.push(next.value)
        assert.deepEqual(keys, [...all])
      }
    }
  } finally {
    void file.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
