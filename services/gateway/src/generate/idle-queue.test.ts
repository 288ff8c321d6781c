import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdleQueue, type IdleWork } from './idle-queue.ts'

/** A queue whose clock the test sets, while one request runs that never ends. */
const busy = (): {
  queue: IdleQueue
  at: (ms: number) => Promise<string[]>
  add: (name: string, work?: IdleWork) => { end: () => void; ended: Promise<void> }
  running: { size: number }
} => {
  let now = 0
  const running = { size: 1 }
  const begun: string[] = []
  const meter = { idle: () => undefined, beside: () => undefined }
  const queue = new IdleQueue(
    { running, monotonic: () => now, meter },
    { most: { judgement: 8, candidates: 8, logprobs: 1 }, besideMs: 1000 },
  )
  return {
    queue,
    running,
    async at(ms) {
      now = ms
      queue.wake()
      await new Promise(setImmediate)
      return begun.splice(0)
    },
    add(name, work = 'judgement') {
      let end = Promise.withResolvers<void>()
      const ended = queue.run(work, new AbortController().signal, async (signal, beside) => {
        begun.push(`${name}${beside ? ' beside' : ''}`)
        end = Promise.withResolvers<void>()
        signal.addEventListener('abort', () => end.reject(signal.reason as Error))
        await end.promise
      })
      return { end: () => end.resolve(), ended }
    },
  }
}

test('the oldest work begins beside requests once it has waited, at most one in that time and one at a time', async () => {
  const { queue, at, add } = busy()
  const [a, b] = [add('a'), add('b', 'candidates')]
  add('c').ended.catch(() => undefined)
  assert.deepEqual(await at(999), [])
  assert.deepEqual(await at(1000), ['a beside'])
  assert.deepEqual(await at(5000), [], 'one at a time')
  queue.yield()
  a.end()
  await a.ended
  assert.deepEqual(await at(5000), ['b beside'])
  b.end()
  await b.ended
  assert.deepEqual(await at(5999), [], 'one in that time')
  assert.deepEqual(await at(6000), ['c beside'])
  queue.stop()
})

test('while the model is idle four judgements and one group of candidates run, and a request interrupts them', async () => {
  const { queue, at, add, running } = busy()
  running.size = 0
  const works = ['a', 'b', 'c', 'd', 'e'].map((name) => add(name))
  works.push(add('f', 'candidates'), add('g', 'candidates'))
  for (const { ended } of works) ended.catch(() => undefined)
  assert.deepEqual(await at(1), ['a', 'b', 'c', 'd', 'f'])
  running.size = 1
  queue.yield()
  assert.deepEqual(await at(2), [])
  running.size = 0
  assert.deepEqual(await at(3), ['a', 'b', 'c', 'd', 'f'], 'from the beginning, the oldest first')
  queue.stop()
})

test('a caller has half of the places of a kind; the others stay free', async () => {
  const meter = { idle: () => undefined, beside: () => undefined }
  const most = { judgement: 8, candidates: 8, logprobs: 8 }
  const queue = new IdleQueue({ running: { size: 1 }, monotonic: () => 0, meter }, { most, besideMs: 1000 })
  const over = new AbortController()
  const ask = (who: string | null): Promise<string> =>
    queue.run('logprobs', over.signal, async () => 'run', who).catch(({ code }: { code: string }) => code)
  const asked = [...Array.from({ length: 5 }, () => ask('ann')), ...Array.from({ length: 5 }, () => ask('bob'))]
  over.abort({ code: 'aborted' })
  const codes = await Promise.all(asked)
  const four = ['aborted', 'aborted', 'aborted', 'aborted', 'overloaded']
  assert.deepEqual(codes, [...four, ...four])
})
