import { encodeEvent, InstarError, type ErrorCode, type FeedbackGiven } from '@instar/events'
import assert from 'node:assert/strict'
import test from 'node:test'
import { openMemoryLog } from './memory/log.ts'
import { persist } from './persist.ts'
import type { Append, EventLog } from './port.ts'

const feedback = (id: string): FeedbackGiven => ({
  type: 'FeedbackGiven',
  id,
  session: 's',
  turn: null,
  value: 1,
  comment: null,
  subject: 's',
  key: null,
  at: 10,
})
const records = [encodeEvent(feedback('one')), encodeEvent(feedback('two'))]

/** A log that rejects one append with each of `errors`, then appends. `calls`: the records of each call. */
const failingLog = (errors: readonly Error[], calls: Append[][], failed = (): void => undefined): EventLog => {
  const log = openMemoryLog()
  const append = async (appended: readonly Append[]) => {
    calls.push([...appended])
    const error = errors[calls.length - 1]
    if (error === undefined) return log.append(appended)
    failed()
    throw error
  }
  return Object.assign(Object.create(log) as EventLog, { append, read: log.read.bind(log) })
}

const errorOf = (code: ErrorCode): InstarError => new InstarError(code, code)
const never = new AbortController().signal

test('retryable errors are retried with the same bytes until the append succeeds', async () => {
  const calls: Append[][] = []
  const log = failingLog([errorOf('log_full'), errorOf('log_unavailable')], calls)
  await persist(log, records, never)
  assert.equal(calls.length, 3)
  for (const call of calls)
    assert.deepEqual(
      call,
      records.map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
    )
  const stored: Append[] = []
  for await (const batch of log.read('turns')) stored.push(...batch)
  assert.deepEqual(
    stored.map(({ payload }) => Buffer.from(payload).toString('hex')),
    records.map(({ payload }) => Buffer.from(payload).toString('hex')),
  )
})

test('other errors are thrown at once: log_broken, bad_record, a TypeError', async () => {
  for (const error of [errorOf('log_broken'), errorOf('bad_record'), new TypeError('a defect')]) {
    const calls: Append[][] = []
    await assert.rejects(persist(failingLog([error], calls), records, never), error)
    assert.equal(calls.length, 1)
  }
})

test('an abort ends the retries', async () => {
  const stop = new AbortController()
  const calls: Append[][] = []
  const errors = Array.from({ length: 100 }, () => errorOf('log_unavailable'))
  await assert.rejects(
    persist(
      failingLog(errors, calls, () => {
        if (calls.length === 2) setImmediate(() => stop.abort())
      }),
      records,
      stop.signal,
    ),
    { name: 'AbortError' },
  )
  assert.equal(calls.length, 2)
  await assert.rejects(persist(failingLog([], calls), records, stop.signal), { name: 'AbortError' })
  assert.equal(calls.length, 2, 'no append after the abort')
})
