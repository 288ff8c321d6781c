import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventReader } from './event-reader.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

test('events are read correctly for every split of their bytes', () => {
  const bytes = bytesOf(
    'data: {"a":"é"}\n\n: ping\n\ndata: 1\r\ndata: 2\r\n\r\nerror: {"code":400}\n\ndata:[DONE]\n\nevent: x\n',
  )
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const reader = new EventReader()
    assert.deepEqual(
      [...reader.push(bytes.subarray(0, cut)), ...reader.push(bytes.subarray(cut))],
      ['{"a":"é"}', '1\n2', '{"error":{"code":400}}', '[DONE]'],
    )
  }
})

test('events whose lines end with a carriage return alone are read', () => {
  assert.deepEqual(new EventReader().push(bytesOf('data: 1\r\rdata: 2\r\r: ping')), ['1', '2'])
})

test('an event at the maximum length is read, and a longer one is an EngineFault', () => {
  const reader = new EventReader(20)
  assert.deepEqual([...reader.push(bytesOf('data: 67890')), ...reader.push(bytesOf('123456789'))], [])
  assert.deepEqual(reader.push(bytesOf('\n\n')), ['67890123456789'])
  assert.deepEqual(reader.push(bytesOf('data: 67890')), [])
  assert.throws(() => reader.push(bytesOf('1234567890')), {
    kind: 'response',
    message: 'an event has more than 20 characters',
  })
})

test('lines and bytes that never become an event are an EngineFault', () => {
  const lines = (count: number): Uint8Array => bytesOf('data: a\n'.repeat(count))
  // The parser keeps each line: 12 million of two characters took 1.4 GB.
  const many = new EventReader()
  assert.deepEqual(many.push(lines(100_000)), [])
  assert.throws(() => many.push(lines(1)), { kind: 'response', message: 'more than 100000 lines are no event' })
  // A complete event starts the counts again.
  const answered = new EventReader(100)
  for (let i = 0; i < 1000; i += 1) {
    assert.deepEqual(answered.push(bytesOf(': ping\n\n'.repeat(40))), [])
    assert.deepEqual(answered.push(bytesOf('data: 1\n\n')), ['1'])
  }
  const silent = new EventReader(100)
  assert.deepEqual(silent.push(bytesOf(': ping\n\n'.repeat(50))), [])
  assert.throws(() => silent.push(bytesOf(': ping\n\n')), {
    kind: 'response',
    message: 'more than 400 bytes are no event',
  })
})
