import { test } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

const nice = (thread: number | string): number =>
  Number(
    readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')[16],
  )

test('the learning thread alone has a lower priority', { skip: process.platform !== 'linux' }, async () => {
  const module = JSON.stringify(import.meta.resolve('@instar/policy/learn/priority'))
  const before = nice(process.pid)
  const worker = new Worker(
    `import(${module}).then(({ lowerPriority }) => { require('node:worker_threads').parentPort.postMessage(lowerPriority()) }); setInterval(() => {}, 1000)`,
    { eval: true },
  )
  const [thread] = (await once(worker, 'message')) as [number]
  assert.equal(nice(thread), Math.max(before, 10))
  assert.equal(nice(process.pid), before)
  await worker.terminate()
})
