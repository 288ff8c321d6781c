import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '../index.ts'
import { SnapshotFile, type FoldFile } from './file.ts'
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
  const snapshot = new Snapshot(settings, 'test', '1')
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
