/** Fetch requests and responses, compared with kafkajs's. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { decodeFetch, encodeFetch, FETCH_VERSIONS, rotated, type FetchRequest } from './fetch-codec.ts'

const require = createRequire(import.meta.url)
type Encoder = {
  buffer: Buffer
  writeInt8(value: number): Encoder
  writeInt16(value: number): Encoder
  writeInt32(value: number): Encoder
  writeInt64(value: string): Encoder
  writeString(value: string): Encoder
  writeBytes(value: Buffer): Encoder
}
const KafkajsEncoder = require('kafkajs/src/protocol/encoder.js') as new () => Encoder
const kafkajs = (version: number) => ({
  request: require(`kafkajs/src/protocol/requests/fetch/v${version}/request.js`) as (request: object) => {
    encode(): Promise<Encoder>
  },
  response: require(`kafkajs/src/protocol/requests/fetch/v${version}/response.js`) as {
    decode(bytes: Buffer): Promise<{ responses: { topicName: string; partitions: Record<string, unknown>[] }[] }>
  },
})
const VERSIONS = Array.from(
  { length: FETCH_VERSIONS.last - FETCH_VERSIONS.first + 1 },
  (_, i) => FETCH_VERSIONS.first + i,
)

const REQUEST: FetchRequest = {
  maxWaitTime: 5000,
  minBytes: 1,
  maxBytes: 2 << 20,
  isolationLevel: 0,
  topics: [
    {
      topic: 'prefix.turns',
      partitions: [
        { partition: 3, fetchOffset: '9007199254740991', maxBytes: 1 << 20 },
        { partition: 0, fetchOffset: '0', maxBytes: 1 },
      ],
    },
    { topic: 'weights', partitions: [{ partition: 0, fetchOffset: '7', maxBytes: 1 << 20 }] },
    { topic: 'empty', partitions: [] },
  ],
}

test('a request has the same bytes as one of kafkajs, in each version', async () => {
  for (const version of VERSIONS) {
    const { buffer } = await kafkajs(version)
      .request({ ...REQUEST, replicaId: -1 })
      .encode()
    assert.deepEqual(encodeFetch(version, REQUEST), buffer, `version ${version}`)
  }
})

/** `aborted`: null for a list that is null. */
const partitionOf = (
  to: Encoder,
  version: number,
  {
    partition,
    error,
    end,
    aborted,
    messages,
  }: {
    partition: number
    error: number
    end: string
    aborted: number | null
    messages: Buffer
  },
): void => {
  to.writeInt32(partition).writeInt16(error).writeInt64(end).writeInt64('5')
  if (version >= 5) to.writeInt64('2')
  to.writeInt32(aborted ?? -1)
  for (let i = 0; i < (aborted ?? 0); i += 1) to.writeInt64('11').writeInt64('12')
  if (version >= 11) to.writeInt32(-1)
  to.writeBytes(messages)
}

const responseOf = (version: number, messages: Buffer): Buffer => {
  const to = new KafkajsEncoder().writeInt32(40)
  if (version >= 7) to.writeInt16(0).writeInt32(0)
  to.writeInt32(2).writeString('turns').writeInt32(2)
  partitionOf(to, version, { partition: 7, error: 0, end: '9007199254740993', aborted: 2, messages: Buffer.alloc(0) })
  partitionOf(to, version, { partition: 1, error: 6, end: '-1', aborted: null, messages: Buffer.alloc(0) })
  to.writeString('weights').writeInt32(1)
  partitionOf(to, version, { partition: 0, error: 0, end: '3', aborted: 0, messages })
  return to.buffer
}

test('a response is read as kafkajs reads it, with the bytes of its batches, in each version', async () => {
  for (const version of VERSIONS) {
    const bytes = responseOf(version, Buffer.from('cut'))
    const { clientSideThrottleTime, errorCode, responses } = decodeFetch(version, bytes)
    assert.deepEqual([clientSideThrottleTime, errorCode], [version >= 8 ? 40 : 0, 0])
    const fields = (all: { topicName: string; partitions: Record<string, unknown>[] }[]) =>
      all.map(({ topicName, partitions }) => [
        topicName,
        partitions.map(({ partition, errorCode: error, highWatermark }) => [partition, error, highWatermark]),
      ])
    // kafkajs decodes what it takes for a batch.
    const theirs = await kafkajs(version).response.decode(responseOf(version, Buffer.alloc(0)))
    assert.deepEqual(fields(responses), fields(theirs.responses), `version ${version}`)
    assert.deepEqual(
      responses.flatMap(({ partitions }) => partitions.map(({ messages }) => String(messages))),
      ['', '', 'cut'],
    )
    for (let length = 0; length < bytes.length; length += 1)
      assert.throws(() => decodeFetch(version, bytes.subarray(0, length)), RangeError, `${length} bytes`)
  }
})

test('the first partition of a request is another one each time, and none is left out', () => {
  const { topics } = REQUEST
  for (const [place, first] of [
    [0, 'prefix.turns 3'],
    [0.4, 'weights 0'],
    [0.99, 'empty undefined'],
  ] as const) {
    const moved = rotated(topics, place)
    assert.equal(`${moved[0]!.topic} ${moved[0]!.partitions[0]?.partition}`, first)
    assert.deepEqual(
      moved.flatMap(({ topic, partitions }) => partitions.map(({ partition }) => `${topic} ${partition}`)).sort(),
      ['prefix.turns 0', 'prefix.turns 3', 'weights 0'],
    )
  }
  assert.deepEqual(
    rotated(topics, 0.99)
      .find(({ topic }) => topic === 'prefix.turns')!
      .partitions.map(({ partition }) => partition),
    [0, 3],
  )
})
