import assert from 'node:assert/strict'
import test from 'node:test'
import { createPump } from './pump.ts'

test('runs do not overlap; wake-ups during a run cause one more run', async () => {
  const runs: PromiseWithResolvers<void>[] = []
  let [running, maxRunning] = [0, 0]
  const pump = createPump(async () => {
    running += 1
    maxRunning = Math.max(maxRunning, running)
    const run = Promise.withResolvers<void>()
    runs.push(run)
    await run.promise
    running -= 1
  }, assert.fail)
  pump.wake()
  assert.equal(runs.length, 1, 'the first run starts at once')
  for (let i = 0; i < 5; i += 1) pump.wake()
  assert.equal(runs.length, 1)
  runs[0]!.resolve()
  while (runs.length < 2) await Promise.resolve()
  runs[1]!.resolve()
  await pump.idle()
  assert.deepEqual([runs.length, maxRunning, running], [2, 1, 0])
  pump.wake()
  assert.equal(runs.length, 3, 'a wake-up when idle starts a run')
  runs[2]!.resolve()
  await pump.idle()
})

test('idle waits for a run that was scheduled during the last run', async () => {
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

test('an error is reported, and wake-ups during and after the failed run start a run', async () => {
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
