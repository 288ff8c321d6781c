import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Paced } from './paced.ts'

const open = new AbortController().signal
const code = (wanted: string) => (error: unknown) => (error as { code: string }).code === wanted

test('works run one at a time, in order, and leave the loop to others between them', async () => {
  const paced = new Paced(() => performance.now())
  const done: string[] = []
  let running = 0
  const work = (name: string) =>
    paced.run(null, open, async () => {
      running += 1
      assert.equal(running, 1)
      const from = performance.now()
      while (performance.now() - from < 20);
      done.push(name)
      running -= 1
    })
  const from = performance.now()
  await Promise.all([work('a'), work('b'), work('c')])
  assert.deepEqual(done, ['a', 'b', 'c'])
  assert.ok(performance.now() - from >= 20 + 100 + 100, 'each waits for four times the work before it')
})

test('one beyond the limit is refused; one whose client has left does not run; a failure does not stop the next', async () => {
  const paced = new Paced(() => performance.now(), 6)
  const gone = new AbortController()
  const failing = paced.run(null, open, () => Promise.reject(new Error('broken')))
  const left = paced.run(null, gone.signal, () => assert.fail('ran without a client'))
  const next = paced.run(null, open, async () => 'read')
  await assert.rejects(
    paced.run(null, open, async () => 'too many'),
    code('overloaded'),
  )
  gone.abort()
  await assert.rejects(failing, /broken/)
  await assert.rejects(left, code('aborted'))
  assert.equal(await next, 'read')
  assert.equal(paced.size, 0)
})

test('a work whose client leaves while it waits is dropped at once, and its place is free', async () => {
  const paced = new Paced(() => performance.now(), 4)
  const held = Promise.withResolvers<void>()
  const running = paced.run('a', open, () => held.promise)
  const gone = new AbortController()
  const left = paced.run('a', gone.signal, () => assert.fail('ran without a client'))
  gone.abort()
  await assert.rejects(left, code('aborted'))
  await assert.rejects(
    paced.run('a', gone.signal, () => assert.fail('ran without a client')),
    code('aborted'),
  )
  assert.equal(paced.size, 1)
  const next = paced.run('a', open, async () => 'read')
  held.resolve()
  await running
  assert.equal(await next, 'read')
})

test('one key with many works does not keep another waiting for all of them', async () => {
  const paced = new Paced(() => performance.now())
  const done: string[] = []
  const work = (key: string) => paced.run(key, open, async () => void done.push(key))
  await Promise.all([work('a'), work('a'), work('a'), work('a'), work('b'), work('b')])
  assert.deepEqual(done, ['a', 'b', 'a', 'b', 'a', 'a'])
})

test('a caller of a group has at most half of its places, and the group half of all', async () => {
  const paced = new Paced(() => performance.now(), 16)
  const held = Promise.withResolvers<void>()
  const runs: Promise<void>[] = []
  const take = (who: string, times: number): void => {
    for (let n = 0; n < times; n += 1) runs.push(paced.run({ group: 'dashboard', who }, open, () => held.promise))
  }
  const refused = (who: string) =>
    assert.rejects(
      paced.run({ group: 'dashboard', who }, open, async () => undefined),
      code('overloaded'),
    )
  take('anna', 4)
  await refused('anna')
  take('bob', 4)
  await refused('cleo')
  runs.push(paced.run('a key', open, () => held.promise))
  held.resolve()
  await Promise.all(runs)
  assert.equal(paced.size, 0)
  await paced.run({ group: 'dashboard', who: 'anna' }, open, async () => undefined)
})
