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

/** Fails with each of `faults` in turn, then appends; `given`: what each call was given. */
const failing = (faults: readonly Error[], given: Append[][], failed = (): void => undefined): EventLog => {
  const log = openMemoryLog()
  const append = async (appended: readonly Append[]) => {
    given.push([...appended])
    const fault = faults[given.length - 1]
    if (fault === undefined) return log.append(appended)
    failed()
    throw fault
  }
  return Object.assign(Object.create(log) as EventLog, { append, read: log.read.bind(log) })
}

const fault = (code: ErrorCode): InstarError => new InstarError(code, code)
const never = new AbortController().signal

test('faults that pass are tried again with the same bytes until it is done', async () => {
  const given: Append[][] = []
  const log = failing([fault('log_full'), fault('log_unavailable')], given)
  await persist(log, records, never)
  assert.equal(given.length, 3)
  for (const call of given)
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

test('what does not pass is thrown at once: a broken log, a bad record, a defect', async () => {
  for (const lasting of [fault('log_broken'), fault('bad_record'), new TypeError('a defect')]) {
    const given: Append[][] = []
    await assert.rejects(persist(failing([lasting], given), records, never), lasting)
    assert.equal(given.length, 1)
  }
})

test('an abort ends the waiting, and nothing is tried after it', async () => {
  const stop = new AbortController()
  const given: Append[][] = []
  const faults = Array.from({ length: 100 }, () => fault('log_unavailable'))
  await assert.rejects(
    persist(
      failing(faults, given, () => {
        if (given.length === 2) setImmediate(() => stop.abort())
      }),
      records,
      stop.signal,
    ),
    { name: 'AbortError' },
  )
  assert.equal(given.length, 2)
  await assert.rejects(persist(failing([], given), records, stop.signal), { name: 'AbortError' })
  assert.equal(given.length, 2, 'aborted before it began')
})
