import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import { crc32c } from './crc32c.ts'
import { encodeProduce, headersOf, type KafkaMessage, type ProduceRequest } from './record-batch.ts'

const require = createRequire(import.meta.url)
type KafkajsEncoder = { buffer: Buffer }
const kafkajsRequest = require('kafkajs/src/protocol/requests/produce/v7/request.js') as (request: object) => {
  encode(): Promise<KafkajsEncoder>
}

/** kafkajs's encoding of the request. kafkajs needs timestamps as sortable text and writes 0 as the leader epoch. */
const kafkajsEncoding = async ({ topicData, ...request }: ProduceRequest): Promise<Buffer> => {
  const asText = ({ timestamp, headers, ...message }: KafkaMessage) => ({
    ...message,
    timestamp: String(timestamp).padStart(16, '0'),
    ...(headers ? { headers: Object.fromEntries(headers.map(([key, value]) => [key.toString(), value])) } : {}),
  })
  const { encode } = kafkajsRequest({
    ...request,
    topicData: topicData.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((batch) => ({ ...batch, messages: batch.messages.map(asText) })),
    })),
  })
  return (await encode()).buffer
}

const message = (key: string | null, value: Buffer | null, timestamp: number): KafkaMessage => ({
  key: key === null ? null : Buffer.from(key),
  value,
  timestamp,
})
const request = (messages: readonly KafkaMessage[]): ProduceRequest => ({
  acks: -1,
  timeout: 30_000,
  producerId: '9007199254740993',
  producerEpoch: 7,
  topicData: [{ topic: 'turns', partitions: [{ partition: 3, firstSequence: 2 ** 31 - 2, messages }] }],
})

/** The byte offset of the leader epoch of the first batch. The checksum does not include it. */
const LEADER_EPOCH_AT = 12 + 2 + 5 + 4 + 4 + 4 + 12

describe('record batches', () => {
  it('have Castagnoli checksums', () => {
    assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283)
    assert.equal(crc32c(Buffer.alloc(32)), 0x8a9136aa)
    assert.equal(crc32c(Buffer.alloc(32, 0xff)), 0x62a8ab43)
    assert.equal(crc32c(Buffer.from('xx123456789x'), 2, 11), 0xe3069283)
    assert.equal(crc32c(Buffer.alloc(0)), 0)
  })

  const cases: Record<string, KafkaMessage[]> = {
    'one record': [message('key', Buffer.from('value'), 1_795_000_000_000)],
    'timestamps that decrease and increase': [5_000, 4_999, 1_795_000_000_000, 0].map((time) =>
      message('k', Buffer.from('v'), time),
    ),
    'values of every varint length': [0, 1, 63, 64, 65, 8191, 8192, 8193, 1 << 20, (1 << 20) + 1].map((size) =>
      message('k', Buffer.alloc(size, 'x'), 1),
    ),
    'offset deltas with varints of three bytes': Array.from({ length: 9000 }, (_, i) =>
      message(`k${i}`, Buffer.from(`${i}`), i),
    ),
    'no key, no value, headers': [
      message(null, null, 1),
      { ...message('ключ', Buffer.alloc(0), 2), headers: headersOf({ 'instar.reason': 'größer', empty: '' }) },
    ],
  }
  for (const [name, messages] of Object.entries(cases)) {
    it(`equal kafkajs's bytes except for the leader epoch: ${name}`, async () => {
      const encoded = encodeProduce(request(messages))
      const expected = Buffer.from(await kafkajsEncoding(request(messages)))
      assert.equal(encoded.readInt32BE(LEADER_EPOCH_AT), -1)
      expected.writeInt32BE(-1, LEADER_EPOCH_AT)
      assert.ok(encoded.equals(expected), `${encoded.length} bytes, kafkajs has ${expected.length}`)
    })
  }

  it('of several partitions are encoded in one request', async () => {
    const batch = (partition: number) => ({
      partition,
      firstSequence: partition,
      messages: [message(`k${partition}`, Buffer.from('v'), partition)],
    })
    const both: ProduceRequest = {
      ...request([]),
      topicData: [
        { topic: 'turns', partitions: [batch(0), batch(5)] },
        { topic: 'scores', partitions: [batch(1)] },
      ],
    }
    const encoded = encodeProduce(both)
    const expected = Buffer.from(await kafkajsEncoding(both))
    assert.equal(encoded.length, expected.length)
    for (let at = 0; at < encoded.length; at++) {
      if (encoded[at] === expected[at]) continue
      assert.equal(encoded.readInt32BE(at), -1)
      at += 3
    }
  })
})
