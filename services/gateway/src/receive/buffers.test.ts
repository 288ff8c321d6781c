import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BufferCollection, MOST_UNCOLLECTED } from './buffers.ts'

const MIB = 1024 * 1024

test('buffers are counted with the heap until there is more garbage than the limit, and again when it is collected', () => {
  let external = 0
  const counted: boolean[] = []
  const collection = new BufferCollection(
    () => external,
    (withHeap) => counted.push(withHeap),
  )
  const after = (bytes: number, held: number): boolean[] => {
    external = bytes
    for (let i = 0; i < 8; i += 1) collection.move(MIB, held)
    return counted
  }
  assert.deepEqual(after(MOST_UNCOLLECTED, 0), [true])
  assert.deepEqual(after(MOST_UNCOLLECTED + 40 * MIB, 40 * MIB), [true])
  assert.deepEqual(after(MOST_UNCOLLECTED + 40 * MIB + 1, 40 * MIB), [true, false])
  assert.deepEqual(after(2 * MOST_UNCOLLECTED, 40 * MIB), [true, false])
  assert.deepEqual(after(MOST_UNCOLLECTED, 0), [true, false, true])
})

test('the memory is looked at once per 8 MiB of bodies', () => {
  let looked = 0
  const collection = new BufferCollection(
    () => ((looked += 1), 0),
    () => undefined,
  )
  for (let i = 0; i < 64; i += 1) collection.move(MIB / 2, 0)
  assert.equal(looked, 4)
})
