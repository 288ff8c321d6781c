/** Records of other programs with headers that this build does not have, read without a broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partitionCounts } from '../partition.ts'
import type { KafkaRecord } from './client.ts'
import { RecordCodec } from './record-codec.ts'
import { SchemaTable, type SchemaRow } from './schema-rows.ts'
import { fingerprintOf } from './schema-names.ts'
import { MAX_HEADER_LENGTH } from './schema-header.ts'
import { FixedIds } from './schemas.ts'
import { topicNames } from './topics.ts'

const AVRO = JSON.stringify({ type: 'record', name: 'A', namespace: 'instar', fields: [] })
const schemas = { 'TurnCaptured.v3': AVRO }
const signal = new AbortController().signal

const record = (offset: number, header: string): KafkaRecord => ({
  key: Buffer.from('k'),
  value: Buffer.from([0, 0, 0, 0, 99, 1]),
  timestamp: '1',
  offset: String(offset),
  isControlRecord: false,
  headers: { 'instar.schema': Buffer.from(header) },
})

/** A codec with the dead letters `setAside` (offsets). `reads`: the number of reads of the topic `schemas`. */
const codecOf = (setAside: readonly number[] = [], rows: readonly SchemaRow[] = []) => {
  const state = { reads: 0, now: 0 }
  const reread = async () => {
    state.reads++
    return rows
  }
  const codec = new RecordCodec({
    resolver: new FixedIds(new Map([['TurnCaptured.v3', 1]]), {
      schemas,
      table: new SchemaTable(),
      reread,
      now: () => state.now,
    }),
    schemas,
    counts: partitionCounts(),
    names: topicNames(),
    retryMs: 1000,
    ending: signal,
    deadLetter: () => Promise.resolve(),
    isDeadLetter: async (_, __, { offset }) => setAside.includes(Number(offset)),
    logLine: () => undefined,
  })
  return {
    state,
    decode: async (of: KafkaRecord) => codec.decodeOrDeadLetter('turns', 0, of, signal),
    read: (of: KafkaRecord) => codec.decode('turns', 0, of),
  }
}

test('a record with another schema of a known name stops a reader with its position, until it is set aside', async () => {
  const { decode } = codecOf([8])
  const header = 'TurnCaptured.v3 0123456789abcdef'
  await assert.rejects(decode(record(7, header)), {
    code: 'schema_changed',
    message: /^turns 0@7: TurnCaptured\.v3: /,
    details: { schema: 'TurnCaptured.v3', topic: 'turns', partition: 0, offset: 7 },
  })
  assert.equal(await decode(record(8, header)), undefined)
})

test('unknown headers cause a limited number of reads of the schemas', async () => {
  const { state, decode } = codecOf()
  const header = (i: number): string => `X${i}.v1 0123456789abcdef`
  for (let i = 0; i < 1200; i++) assert.equal((await decode(record(i, header(i))))?.schema, `X${i}.v1`)
  assert.equal(state.reads, 100)
  for (let i = 0; i < 100; i++) await decode(record(i, header(1150)))
  assert.equal(state.reads, 100)
  state.now += 10_000
  for (let i = 0; i < 100; i++) await decode(record(i, header(2000 + i)))
  assert.equal(state.reads, 102, 'one more for each five seconds')
})

test('a header that is longer than any of Instar is malformed, since headers are cached', async () => {
  const { state, decode } = codecOf()
  const longest = `${'X'.repeat(MAX_HEADER_LENGTH - 20)}.v1 0123456789abcdef`
  assert.equal(longest.length, MAX_HEADER_LENGTH)
  assert.equal((await decode(record(7, longest)))?.schema, longest.slice(0, -17))
  assert.equal(await decode(record(8, `X${longest}`)), undefined)
  assert.equal(state.reads, 1)
})

test('a schema of a newer build is found after many unknown headers', async () => {
  const rows = [{ id: 7, schema: 'Newer.v1', avro: AVRO }]
  const { state, decode } = codecOf([], rows)
  for (let i = 0; i < 1200; i++) await decode(record(i, `X${i}.v1 0123456789abcdef`))
  state.now += 5_000
  const newer = await decode(record(1, `Newer.v1 ${fingerprintOf(AVRO)}`))
  assert.deepEqual([newer?.schema, newer?.avro], ['Newer.v1', AVRO])
})

test('a record of a type that this build does not have is skipped once it is set aside', async () => {
  const { decode, read } = codecOf([8])
  const header = 'PageView.v1 0123456789abcdef'
  for (const reader of [decode, read, decode]) {
    assert.equal((await reader(record(7, header)))?.schema, 'PageView.v1')
    assert.equal(await reader(record(8, header)), undefined)
    assert.equal(
      (await reader(record(8, 'TurnCaptured.v4 0123456789abcdef')))?.schema,
      'TurnCaptured.v4',
      'a newer build',
    )
  }
})

test('a record of any time has one that every log can store; a key with NUL is none', async () => {
  const { read } = codecOf()
  const of = (over: Partial<KafkaRecord>) => read({ ...record(0, `TurnCaptured.v3 ${fingerprintOf(AVRO)}`), ...over })
  const times = ['-9223372036854775808', '-1', '7', '9223372036854775807']
  assert.deepEqual(
    await Promise.all(times.map(async (timestamp) => (await of({ timestamp }))?.timestamp)),
    [0, 0, 7, 8_640_000_000_000_000],
  )
  assert.equal(await of({ key: Buffer.from('a\0b') }), undefined)
})
