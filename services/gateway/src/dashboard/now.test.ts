import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shared } from './now.ts'

test('any number of callers share a reading, which is made anew a tenth of a second after it', async () => {
  let [now, readings] = [0, 0]
  const running: PromiseWithResolvers<number>[] = []
  const read = shared(
    () => {
      readings += 1
      const one = Promise.withResolvers<number>()
      running.push(one)
      return one.promise
    },
    () => now,
  )
  const asked = Array.from({ length: 500 }, read)
  now = 5_000
  asked.push(read())
  assert.equal(readings, 1)
  running[0]!.resolve(1)
  assert.deepEqual(new Set(await Promise.all(asked)), new Set([1]))
  now = 5_099
  assert.equal(await read(), 1)
  now = 5_100
  const failed = [read(), read()]
  running[1]!.reject(new Error('away'))
  assert.deepEqual(
    (await Promise.allSettled(failed)).map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  now = 5_200
  const third = read()
  running[2]!.resolve(3)
  assert.equal(await third, 3)
  assert.equal(readings, 3)
})
