import { equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { createFirstError } from './first-error.ts'

test('orFatal rejects with the first error, also with one from before the call; later rejections are handled', async (t) => {
  const unhandled: unknown[] = []
  const record = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', record)
  t.after(() => process.off('unhandledRejection', record))
  const firstError = createFirstError()
  equal(await firstError.orFatal(Promise.resolve(7)), 7)
  await rejects(firstError.orFatal(Promise.reject(new Error('of the work'))), /of the work/)
  const work = Promise.withResolvers<void>()
  const waiting = firstError.orFatal(work.promise)
  firstError.onFatal(new Error('first'))
  firstError.onFatal(new Error('second'))
  await rejects(waiting, /first/)
  work.reject(new Error('after the first'))
  await new Promise(setImmediate)
  await rejects(firstError.orFatal(new Promise(() => undefined)), /first/)
  equal(unhandled.length, 0)
})
