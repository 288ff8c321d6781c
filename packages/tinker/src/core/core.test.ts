import { InstarError } from '@instar/events/errors'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { TrainRow } from '../port.ts'
import { int64Bytes } from './arrays.ts'
import { parsePath } from './paths.ts'
import { afterPoll, NO_POLLS, type Polled } from './polling.ts'
import { reductionOf } from './probing.ts'
import { bytesField, join, ProtobufError, readFields, stringField, uintField } from './protobuf.ts'
import {
  DEFAULT_WIRE,
  forwardBackwardRequests,
  forwardRequests,
  loadRequest,
  optimStepRequest,
  saveRequest,
} from './requests.ts'
import { resultOf } from './results.ts'

type Messages = {
  rows: TrainRow[]
  forward: string
  forwardBackward: string
  outputFloat32: string
  outputBfloat16: string
}
const sdk = JSON.parse(readFileSync(new URL('./sdk-messages.json', import.meta.url), 'utf8')) as Messages
const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex')
const mismatch = (error: unknown): boolean => error instanceof InstarError && error.code === 'trainer_mismatch'
const badRequest = (error: unknown): boolean => error instanceof InstarError && error.code === 'bad_request'

test('requests have the bytes that the messages of SDK tinker 0.38.0 have', () => {
  assert.equal(hex(forwardRequests(DEFAULT_WIRE, 'model_1', 300, sdk.rows)[0]?.bytes), sdk.forward)
  assert.equal(hex(forwardBackwardRequests(DEFAULT_WIRE, 'model_1', 300, sdk.rows)[0]?.bytes), sdk.forwardBackward)
})

const [REQUEST] = forwardRequests(DEFAULT_WIRE, 'model_1', 300, sdk.rows)

test('results are read from the messages of SDK tinker 0.38.0, of 32 and of 16 bits, in two records', () => {
  const read = (message: string) => resultOf(REQUEST!, Buffer.from(message, 'hex'), 'application/x-protobuf')
  const { logprobs, metrics } = read(sdk.outputFloat32)
  assert.deepEqual(
    logprobs,
    sdk.rows.map((row) => Float32Array.from(row.logprobs)),
  )
  assert.deepEqual(metrics, { 'loss:sum': -1.5, 'clock:unique': 3 })
  assert.deepEqual(read(sdk.outputBfloat16).logprobs, [Float32Array.of(-0.5, -1.25, -2), Float32Array.of(-0.099609375)])
})

test('a message that is cut off at any byte, or has any byte replaced, is read or refused, never an exception of another kind', () => {
  const whole = Buffer.from(sdk.outputFloat32, 'hex')
  const attempt = (bytes: Uint8Array): void => {
    try {
      resultOf(REQUEST!, bytes, 'application/x-protobuf')
    } catch (error) {
      assert.ok(mismatch(error), String(error))
    }
  }
  for (let length = 0; length < whole.length; length++) attempt(whole.subarray(0, length))
  for (let at = 0; at < whole.length; at++)
    for (const byte of [0, 1, 0x7f, 0x80, 0xff]) attempt(Buffer.from(whole).fill(byte, at, at + 1))
})

test('offsets that lead out of the data are refused', () => {
  const tensor = (offsets: number[]): Uint8Array =>
    join([bytesField(1, new Uint8Array(16)), bytesField(2, int64Bytes(offsets)), uintField(3, 1)])
  const output = (offsets: number[]): Uint8Array =>
    bytesField(2, bytesField(2, join([stringField(1, 'logprobs'), bytesField(2, tensor(offsets))])))
  assert.equal(resultOf(REQUEST!, output([0, 12, 16]), 'application/x-protobuf').logprobs.length, 2)
  for (const offsets of [
    [0, 12, 20],
    [0, 16, 12],
    [-4, 8, 16],
    [0, 11, 16],
    [0, 12],
    [0, 12, 2 ** 40],
  ])
    assert.throws(() => resultOf(REQUEST!, output(offsets), 'application/x-protobuf'), mismatch)
})

test('numbers of more than ten bytes and groups are no protobuf', () => {
  assert.throws(() => readFields(Buffer.from('08ffffffffffffffffffff01', 'hex')), ProtobufError)
  assert.throws(() => readFields(Buffer.from('0b', 'hex')), ProtobufError)
  assert.deepEqual(readFields(Buffer.from('08ffffffffffffffff7f', 'hex'))[0]?.varint, null)
})

const row = (changes: Partial<TrainRow>): TrainRow[] => [
  { tokens: [1, 2], targets: [2, 3], logprobs: [-1, -1], advantages: [1, 1], ...changes },
]
const wrongRows: [string, Partial<TrainRow>][] = [
  ['one advantage too few', { advantages: [1] }],
  ['one log-prob too many', { logprobs: [-1, -1, -1] }],
  ['no tokens', { tokens: [], targets: [], logprobs: [], advantages: [] }],
  ['a negative id', { tokens: [1, -2] }],
  ['an id of 2^31', { targets: [2, 2 ** 31] }],
  ['an advantage that is no number', { advantages: [1, Number.NaN] }],
  ['an advantage beyond 32 bits', { advantages: [1, 1e39] }],
]
for (const [name, changes] of wrongRows)
  test(`a row with ${name} is refused before anything is sent`, () => {
    for (const format of ['protobuf', 'json'] as const)
      assert.throws(() => forwardBackwardRequests({ ...DEFAULT_WIRE, format }, 'm', 1, row(changes)), badRequest)
  })

test('seqs, names, rates and addresses have limits', () => {
  for (const seq of [0, -1, 1.5, 2 ** 31])
    assert.throws(() => forwardRequests(DEFAULT_WIRE, 'm', seq, row({})), badRequest)
  for (const name of ['', 'a/b', '..', 'x'.repeat(256)])
    assert.throws(() => saveRequest(DEFAULT_WIRE, 'save_weights', 'm', 1, name, null), badRequest)
  assert.equal(saveRequest(DEFAULT_WIRE, 'save_weights', 'm', 1, 'x'.repeat(255), null).path?.length, 255)
  assert.throws(() => loadRequest('m', 1, 'http://x', { optimizer: true }), badRequest)
  const params = { learningRate: -1, beta1: 0, beta2: 0, epsilon: 1, weightDecay: 0, gradClipNorm: 0 }
  assert.throws(() => optimStepRequest('m', 1, params), badRequest)
})

test('a row of exactly the most bytes of a request is sent, one byte more is refused', () => {
  const rows = row({})
  const [{ bytes }] = forwardBackwardRequests(DEFAULT_WIRE, 'm', 1, rows) as unknown as [{ bytes: Uint8Array }]
  // Without `model_id` (3 bytes), `seq_id` (2) and `loss_fn` (21).
  const size = bytes.length - 26
  assert.equal(forwardBackwardRequests({ ...DEFAULT_WIRE, bytesMax: size }, 'm', 1, rows).length, 1)
  assert.throws(() => forwardBackwardRequests({ ...DEFAULT_WIRE, bytesMax: size - 1 }, 'm', 1, rows), badRequest)
})

test('addresses of checkpoints are read with and without their kind', () => {
  assert.deepEqual(parsePath('tinker://model_1/weights/v1'), { run: 'model_1', kind: 'weights', name: 'v1' })
  assert.deepEqual(parsePath('tinker://model_1/v1'), { run: 'model_1', kind: null, name: 'v1' })
  for (const path of [
    'tinker://x',
    'tinker://x/y/z',
    'tinker://x/weights/../v1',
    'tinker://../v1',
    'tinker://x/a%2fb',
    'http://x/v1',
    'tinker://a/weights/b/c',
  ])
    assert.throws(() => parsePath(path), mismatch, path)
})

const poll = (status: number, changes: Partial<Polled> = {}): Polled => ({
  status,
  contentType: 'application/json',
  text: '',
  retryAfterMs: null,
  tookMs: 5,
  ...changes,
})

test('polls that are answered at once wait longer each time, those that were held do not wait', () => {
  const waits: number[] = []
  let polling = NO_POLLS
  for (let count = 0; count < 7; count++) {
    const next = afterPoll('u', 'forward', poll(408), polling)
    assert.equal(next.do, 'poll')
    if (next.do !== 'poll') return
    waits.push(next.waitMs)
    polling = next.polling
  }
  assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 5000, 5000])
  assert.deepEqual(afterPoll('u', 'forward', poll(408, { tookMs: 45_000 }), polling), {
    do: 'poll',
    waitMs: 0,
    polling: NO_POLLS,
  })
})

test('a lost result is asked for anew three times', () => {
  let polling = NO_POLLS
  for (const [count, status] of [410, 404, 410].entries()) {
    const next = afterPoll('u', 'forward', poll(status), polling)
    assert.equal(next.do, 'resubmit')
    if (next.do === 'resubmit') polling = next.polling
    assert.equal(polling.resubmitted, count + 1)
  }
  assert.equal(afterPoll('u', 'forward', poll(410), polling).do, 'fail')
})

test('a reduction that is none of the three is trainer_mismatch', () => {
  assert.equal(reductionOf({ alone: 1, beside: 0.51, longer: 0.48, doubled: 2.1 }), 'sequence_mean')
  assert.equal(reductionOf({ alone: 1, beside: 0.34, longer: 0.49, doubled: 1.9 }), 'token_mean')
  const rounded = { alone: 1, beside: 0.333, longer: 0.5, doubled: 0.667 }
  assert.equal(reductionOf(rounded, { alone: 1, beside: 0.5, longer: 0.5, doubled: 2 }), 'sequence_mean')
  assert.throws(() => reductionOf(rounded, { alone: 1, beside: 1, longer: 1, doubled: 1 }), mismatch)
  for (const shares of [
    // The mean of the sums of sequences.
    { alone: 1, beside: 0.5, longer: 1, doubled: 2 },
    // An optimizer that ignores epsilon.
    { alone: 1, beside: 1, longer: 1, doubled: 1 },
  ])
    assert.throws(() => reductionOf(shares), mismatch)
})

test('a refused result names the kind of its request in a field of its own', () => {
  const next = afterPoll('u', 'load_weights', { ...poll(403), text: 'forbidden' }, NO_POLLS)
  assert.ok(next.do === 'fail')
  assert.deepEqual(next.error.details, { status: 403, kind: 'load_weights', request: 'the result of load_weights' })
})
