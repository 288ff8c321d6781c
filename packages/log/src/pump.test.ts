import assert from 'node:assert/strict'
import test from 'node:test'
import { createPump } from './pump.ts'

test('one run at a time; wakes during a run are one more run', async () => {
  const runs: PromiseWithResolvers<void>[] = []
  let [running, most] = [0, 0]
  const pump = createPump(async () => {
    running += 1
    most = Math.max(most, running)
    const run = Promise.withResolvers<void>()
    runs.push(run)
    await run.promise
    running -= 1
  }, assert.fail)
  pump.wake()
  assert.equal(runs.length, 1, 'it begins at once')
  for (let i = 0; i < 5; i += 1) pump.wake()
  assert.equal(runs.length, 1)
  runs[0]!.resolve()
  while (runs.length < 2) await Promise.resolve()
  runs[1]!.resolve()
  await pump.idle()
  assert.deepEqual([runs.length, most, running], [2, 1, 0])
  pump.wake()
  assert.equal(runs.length, 3, 'idle, it can be woken again')
  runs[2]!.resolve()
  await pump.idle()
})

test('idle waits for the run that a wake during the last one asked for', async () => {
  let runs = 0
  const first = Promise.withResolvers<void>()
  const pump = createPump(async () => {
    runs += 1
    if (runs === 1) await first.promise
    else await new Promise(setImmediate)
  }, assert.fail)
  await pump.idle()
  pump.wake()
  const idle = pump.idle()
  pump.wake()
  first.resolve()
  await idle
  assert.equal(runs, 2)
})

test('an error is told, and the next wake runs again; one during the failing run counts', async () => {
  const errors: string[] = []
  let runs = 0
  const pump = createPump(
    async () => {
      runs += 1
      await Promise.resolve()
      if (runs < 3) throw new Error(`run ${runs}`)
    },
    (error) => errors.push(error.message),
  )
  pump.wake()
  pump.wake()
  await pump.idle()
  assert.deepEqual([runs, errors], [2, ['run 1', 'run 2']])
  pump.wake()
  await pump.idle()
  assert.deepEqual([runs, errors.length], [3, 2])
})
