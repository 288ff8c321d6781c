/**
 * Fetch requests and responses of Kafka's protocol, versions 4 to 11, without fetch sessions
 * (https://kafka.apache.org/protocol#The_Messages_Fetch). kafkajs's codec makes an object of each field and copies each part
 * several times, and decodes the batches (record-set.ts does): at some fetches a second it was a large part of what reading costs.
 */

/** `maxWaitTime`: ms for the first record. `maxBytes`: of all partitions, those of a partition: of its own. */
export type FetchRequest = {
  maxWaitTime: number
  minBytes: number
  maxBytes: number
  isolationLevel: number
  topics: readonly { topic: string; partitions: readonly RequestedPartition[] }[]
}
/** `fetchOffset`: a decimal number. */
type RequestedPartition = { partition: number; fetchOffset: string; maxBytes: number }

export type FetchResponse = {
  responses: {
    topicName: string
    /** `highWatermark`: a decimal number. `messages`: the batches in Kafka's format, the last of which may be cut off. */
    partitions: { partition: number; errorCode: number; highWatermark: string; messages: Buffer }[]
  }[]
}
/** `clientSideThrottleTime`: ms for which the broker wants no request. `errorCode`: of the whole response. */
type DecodedFetch = FetchResponse & { clientSideThrottleTime: number; errorCode: number }

/** Versions with record batches of format 2, and before names of topics became ids. */
export const FETCH_VERSIONS = { first: 4, last: 11 }

/** The first versions with these fields. */
const WITH_LOG_START = 5
const WITH_SESSION = 7
const WITH_CLIENT_THROTTLE = 8
const WITH_LEADER_EPOCH = 9
const WITH_RACK = 11

const CONSUMER = -1
/** A full fetch, outside of any session. */
const [NO_SESSION, FINAL_EPOCH] = [0, -1]
const UNKNOWN = -1

/** The body of a request. */
export const encodeFetch = (version: number, request: FetchRequest): Buffer => {
  const { maxWaitTime, minBytes, maxBytes, isolationLevel, topics } = request
  const names = topics.map(({ topic }) => Buffer.from(topic, 'utf8'))
  const partitionBytes = 16 + (version >= WITH_LEADER_EPOCH ? 4 : 0) + (version >= WITH_LOG_START ? 8 : 0)
  let size = 21 + (version >= WITH_SESSION ? 12 : 0) + (version >= WITH_RACK ? 2 : 0)
  for (const [i, { partitions }] of topics.entries()) size += 6 + names[i]!.length + partitions.length * partitionBytes
  const to = Buffer.allocUnsafe(size)
  let at = to.writeInt32BE(CONSUMER, 0)
  at = to.writeInt32BE(maxWaitTime, at)
  at = to.writeInt32BE(minBytes, at)
  at = to.writeInt32BE(maxBytes, at)
  at = to.writeInt8(isolationLevel, at)
  if (version >= WITH_SESSION) at = to.writeInt32BE(FINAL_EPOCH, to.writeInt32BE(NO_SESSION, at))
  at = to.writeInt32BE(topics.length, at)
  for (const [i, { partitions }] of topics.entries()) {
    const name = names[i]!
    at = to.writeInt16BE(name.length, at)
    to.set(name, at)
    at = to.writeInt32BE(partitions.length, at + name.length)
    for (const { partition, fetchOffset, maxBytes: ofPartition } of partitions) {
      at = to.writeInt32BE(partition, at)
      if (version >= WITH_LEADER_EPOCH) at = to.writeInt32BE(UNKNOWN, at)
      at = to.writeBigInt64BE(BigInt(fetchOffset), at)
      if (version >= WITH_LOG_START) at = to.writeBigInt64BE(BigInt(UNKNOWN), at)
      at = to.writeInt32BE(ofPartition, at)
    }
  }
  // No partition leaves a session; no rack.
  if (version >= WITH_SESSION) at = to.writeInt32BE(0, at)
  if (version >= WITH_RACK) to.writeInt16BE(0, at)
  return to
}

/** A response. Its batches are parts of `bytes`. Throws a RangeError for bytes that end too early. */
export const decodeFetch = (version: number, bytes: Buffer): DecodedFetch => {
  // Of earlier versions the broker has waited itself (KIP-219).
  const throttleTime = bytes.readInt32BE(0)
  const clientSideThrottleTime = version >= WITH_CLIENT_THROTTLE ? throttleTime : 0
  let at = 4
  let errorCode = 0
  if (version >= WITH_SESSION) {
    errorCode = bytes.readInt16BE(at)
    at += 6
  }
  const count = (): number => {
    const items = bytes.readInt32BE(at)
    at += 4
    return items
  }
  const responses: FetchResponse['responses'] = []
  for (let topics = count(); topics > 0; topics -= 1) {
    const nameBytes = bytes.readInt16BE(at)
    const topicName = bytes.toString('utf8', at + 2, at + 2 + nameBytes)
    at += 2 + nameBytes
    const partitions: FetchResponse['responses'][number]['partitions'] = []
    for (let left = count(); left > 0; left -= 1) {
      const partition = bytes.readInt32BE(at)
      const error = bytes.readInt16BE(at + 4)
      const highWatermark = String(bytes.readBigInt64BE(at + 6))
      // Behind it the last stable offset and the log's start.
      at += 22 + (version >= WITH_LOG_START ? 8 : 0)
      // Aborted transactions; -1: null.
      const aborted = Math.max(0, count())
      at += 16 * aborted
      // The preferred replica.
      if (version >= WITH_RACK) at += 4
      const length = Math.max(0, count())
      if (at + length > bytes.length)
        throw new RangeError(`a fetch response has ${bytes.length} bytes, and not all records`)
      partitions.push({ partition, errorCode: error, highWatermark, messages: bytes.subarray(at, at + length) })
      at += length
    }
    responses.push({ topicName, partitions })
  }
  return { clientSideThrottleTime, errorCode, responses }
}

/**
 * The same partitions in another order, by `place` from 0 to 1: Kafka fills a response in the order of the request, so that those
 * behind the first ones would wait while these have more than a fetch brings.
 */
export const rotated = (topics: FetchRequest['topics'], place: number): FetchRequest['topics'] => {
  const from = <T>(items: readonly T[]): T[] => {
    const first = Math.floor(place * items.length)
    return [...items.slice(first), ...items.slice(0, first)]
  }
  return from(topics).map(({ topic, partitions }) => ({ topic, partitions: from(partitions) }))
}
