import { equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { firstFault } from './first-fault.ts'

test('a wait ends with the first fault, also one from before the wait, and later rejections are handled', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  const fault = firstFault()
  equal(await fault.before(Promise.resolve(7)), 7)
  await rejects(fault.before(Promise.reject(new Error('the work itself'))), /the work itself/)
  const work = Promise.withResolvers<void>()
  const waits = fault.before(work.promise)
  fault.onFatal(new Error('first'))
  fault.onFatal(new Error('second'))
  await rejects(waits, /first/)
  work.reject(new Error('stopped meanwhile'))
  await new Promise(setImmediate)
  await rejects(fault.before(new Promise(() => undefined)), /first/)
  equal(unhandled.length, 0)
})
