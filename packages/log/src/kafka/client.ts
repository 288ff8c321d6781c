/**
 * Connections to the brokers: kafkajs's cluster and broker objects, without its producer and consumer.
 *
 * Why not those two: the producer loses acknowledged records in three ways, all of them in how it keeps
 * sequence numbers and answers across its own retries; the consumer cannot read without joining a group. Below
 * them the same package has all that is needed, encoded and decoded by the same code: metadata, produce
 * with a sequence number that we give, fetch from an offset that we give. The version is pinned: kafkajs
 * promises nothing about these modules.
 */
import { createRequire } from 'node:module'
import { zstdDecompressSync } from 'node:zlib'
import type { Broker as PublicBroker, Cluster as PublicCluster } from 'kafkajs'
import { encodeProduce, type ProduceRequest } from './record-batch.ts'
import { kafkajsSecurity, socketFactory, type Security } from './security.ts'

export type ClientOptions = {
  /** `host:port` of some of the brokers. */
  brokers: readonly string[]
  /** Names this process in the brokers' logs. */
  clientId: string
  /** Milliseconds that one request may take. Default 15,000. */
  requestTimeout?: number
  /** Default: neither TLS nor a name. */
  security?: Security
}

type Listed = { topic: string; partitions: { partition: number; offset: string }[] }

/** `timestamp` and `offset` are decimal numbers. */
export type Fetchable = {
  key: Buffer | null
  value: Buffer | null
  timestamp: string
  offset: string
  isControlRecord: boolean
  headers?: Record<string, unknown>
}
export type FetchResponse = {
  responses: { topicName: string; partitions: { partition: number; highWatermark: string; messages: Fetchable[] }[] }[]
}

type ProduceResponse = {
  topics: { topicName: string; partitions: { partition: number; errorCode: number; baseOffset: string }[] }[]
}

/** A request of the version that the broker takes, and how its answer is read. */
type Protocol = { request: { apiVersion: number; encode(): Promise<object> }; response: object }
type Versioned = (request: object) => Protocol

export type Broker = Omit<PublicBroker, 'produce' | 'fetch'> & {
  lookupRequest(apiKey: number, definition: object): Versioned
  connectionPool: { send(protocol: Protocol): Promise<unknown> }
  initProducerId(request: {
    transactionalId?: string
    transactionTimeout: number
  }): Promise<{ producerId: string; producerEpoch: number }>
  listOffsets(request: {
    replicaId: number
    isolationLevel: number
    topics: { topic: string; partitions: { partition: number; timestamp: number }[] }[]
  }): Promise<{ responses: Listed[] }>
  fetch(request: Parameters<PublicBroker['fetch']>[0]): Promise<FetchResponse>
  /** Answers when every member has joined, or after `rebalanceTimeout` ms. Only the leader gets the list of members. */
  joinGroup(request: {
    groupId: string
    sessionTimeout: number
    rebalanceTimeout: number
    memberId: string
    groupProtocols: { name: string; metadata: Buffer }[]
  }): Promise<{
    generationId: number
    leaderId: string
    memberId: string
    members: { memberId: string; memberMetadata: Buffer }[]
  }>
  /** Answered when the leader has given its assignment. */
  syncGroup(request: {
    groupId: string
    generationId: number
    memberId: string
    groupAssignment: { memberId: string; memberAssignment: Buffer }[]
  }): Promise<{ memberAssignment: Buffer }>
  heartbeat(request: { groupId: string; groupGenerationId: number; memberId: string }): Promise<unknown>
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
}

export type Cluster = Omit<PublicCluster, 'findBroker' | 'findGroupCoordinator' | 'findControllerBroker'> & {
  findBroker(node: { nodeId: string }): Promise<Broker>
  findGroupCoordinator(group: { groupId: string }): Promise<Broker>
  findControllerBroker(): Promise<Broker>
}

const require = createRequire(import.meta.url)

/** Kafka's error codes. */
const LEADER_NOT_AVAILABLE = 5
const REPLICA_NOT_AVAILABLE = 9
const LISTENER_NOT_FOUND = 72

const apiKeys = require('kafkajs/src/protocol/requests/apiKeys.js') as { Produce: number }
const { requests } = require('kafkajs/src/protocol/requests/index.js') as { requests: { Produce: object } }

/** Older brokers take other records. */
const OLDEST_PRODUCE = 3

/** Passes our encoding to kafkajs as an encoder of its own. Throws the first error of the response. */
export const produce = async (broker: Broker, request: ProduceRequest): Promise<ProduceResponse> => {
  const { acks, timeout } = request
  const protocol = broker.lookupRequest(apiKeys.Produce, requests.Produce)({ acks, timeout, topicData: [] })
  if (protocol.request.apiVersion < OLDEST_PRODUCE)
    throw new Error(
      `the broker takes produce requests of version ${protocol.request.apiVersion} only; ${OLDEST_PRODUCE} is needed`,
    )
  const body = encodeProduce(request)
  const answer = await broker.connectionPool.send({
    ...protocol,
    request: { ...protocol.request, encode: () => Promise.resolve({ buf: body, buffer: body }) },
  })
  return answer as ProduceResponse
}

const silent = {
  info: nothing,
  error: nothing,
  warn: nothing,
  debug: nothing,
  namespace: () => silent,
  setLogLevel: nothing,
}
function nothing(): void {
  /* What goes wrong reaches the caller as an error. */
}

const NewCluster = require('kafkajs/src/cluster/index.js') as new (options: Record<string, unknown>) => Cluster

/**
 * Two things that kafkajs does wrong below its public interface, put right for this process.
 * - A connection's queue looks again after a time when it holds something back. kafkajs sets that timer, of one
 *   millisecond, for an empty queue as well, for ever: a thousand wake-ups a second for each idle connection,
 *   and a warning from Node about a negative time.
 * - Two first requests at a time on a connection for fetches each open a socket, one of which nobody closes: the
 *   process never ends.
 */
type RequestQueue = { pending: readonly unknown[]; scheduleCheckPendingRequests(): void }
const { prototype: queue } = require('kafkajs/src/network/requestQueue/index.js') as { prototype: RequestQueue }
const schedule = queue.scheduleCheckPendingRequests
queue.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) schedule.call(this)
}

type Connection = { connect(): Promise<true> }
const { prototype: connection } = require('kafkajs/src/network/connection.js') as { prototype: Connection }
const open = connection.connect
const opening = new WeakMap<Connection, Promise<true>>()
connection.connect = function (this: Connection): Promise<true> {
  const begun = opening.get(this)
  if (begun) return begun
  const begins = open.call(this).finally(() => opening.delete(this))
  opening.set(this, begins)
  return begins
}

/**
 * And two things that it lacks.
 * - An answer about topics in which one partition has no leader is thrown away whole: nothing could be read or
 *   written anywhere. Here such a partition has the leader -1.
 * - Batches that a broker or another client compressed with zstd are read by Node's own zlib.
 */
type Metadata = {
  topicMetadata: { topicErrorCode: number; partitionMetadata: { partitionErrorCode: number; leader: number }[] }[]
}
const metadata = require('kafkajs/src/protocol/requests/metadata/v6/response.js') as {
  parse(data: Metadata): Promise<Metadata>
}
const parseMetadata = metadata.parse
const NO_LEADER = new Set([LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, LISTENER_NOT_FOUND])
metadata.parse = (data) => {
  for (const partition of data.topicMetadata.flatMap(({ partitionMetadata }) => partitionMetadata)) {
    if (NO_LEADER.has(partition.partitionErrorCode)) partition.partitionErrorCode = 0
  }
  return parseMetadata(data)
}

const { Codecs, Types } = require('kafkajs/src/protocol/message/compression/index.js') as {
  Codecs: Record<number, () => unknown>
  Types: { ZSTD: number }
}
/** Far beyond the largest batch that a topic of ours takes. */
const MOST_UNPACKED = 256 << 20
Codecs[Types.ZSTD] = () => ({
  decompress: (packed: Buffer) => Promise.resolve(zstdDecompressSync(packed, { maxOutputLength: MOST_UNPACKED })),
})

/** The codec (`LZ4`, `Snappy`) of a batch that cannot be decompressed, if that is the error. */
export const codecRefused = (cause: unknown): string | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if (error.name === 'KafkaJSNotImplemented') return /^(\S+) compression not implemented$/.exec(error.message)?.[1]
  }
  return undefined
}

/** The message of an authentication or TLS error, in either direction; undefined for any other error. */
export const accessRefused = (cause: unknown): string | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if (error.name.startsWith('KafkaJSSASLAuthenticationError') || CERTIFICATE.test(error.message)) return error.message
  }
  return undefined
}
const CERTIFICATE = /certificate|SSL alert|ssl3_|wrong version number|altnames/i

/**
 * Retries are in our own loops, which can be observed and stopped; kafkajs retries few times and quickly, independent
 * of NODE_ENV.
 */
const RETRY = { retries: 2, initialRetryTime: 50, maxRetryTime: 200, factor: 0.2, multiplier: 2 }

const REQUEST_TIMEOUT = 15_000

/** Partitions without a leader. The connections stay open; the metadata is refreshed. */
export class NoLeader extends Error {
  constructor(places: readonly { topic: string; partition: number }[]) {
    super(`${places.map(({ topic, partition }) => `${topic} ${partition}`).join(', ')} has no leader`)
  }
}

/**
 * One set of connections, opened on first use and replaced after any failure, so that leaders are looked up again and
 * no socket of a stopped broker is reused.
 */
export class KafkaConnection {
  readonly #options: ClientOptions
  readonly #topics: readonly string[]
  #cluster: Promise<Cluster> | undefined
  #closed = false

  constructor(options: ClientOptions, topics: readonly string[]) {
    this.#options = options
    this.#topics = topics
  }

  /** Runs `work` and rethrows its error after closing the connections; after a `NoLeader` they stay open. */
  async use<T>(work: (cluster: Cluster) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error('the connection is closed')
    const opened = (this.#cluster ??= this.#open())
    try {
      return await work(await opened)
    } catch (cause) {
      if (
        cause instanceof NoLeader &&
        (await opened
          .then((cluster) => cluster.refreshMetadata())
          .then(
            () => true,
            () => false,
          ))
      )
        throw cause
      if (this.#cluster === opened) this.#cluster = undefined
      leave(opened)
      throw cause
    }
  }

  /** Closes after requests in progress have been answered or have timed out; does not wait for that. */
  close(): void {
    this.#closed = true
    if (this.#cluster) leave(this.#cluster)
    this.#cluster = undefined
  }

  async #open(): Promise<Cluster> {
    const { brokers, clientId, requestTimeout = REQUEST_TIMEOUT, security } = this.#options
    const cluster = new NewCluster({
      logger: silent,
      socketFactory,
      ...kafkajsSecurity(security),
      brokers: [...brokers],
      clientId,
      requestTimeout,
      enforceRequestTimeout: true,
      connectionTimeout: 5_000,
      metadataMaxAge: 300_000,
      allowAutoTopicCreation: false,
      retry: RETRY,
      isolationLevel: READ_UNCOMMITTED,
      maxInFlightRequests: null,
    })
    try {
      await cluster.connect()
      await cluster.addMultipleTargetTopics([...this.#topics])
      return cluster
    } catch (cause) {
      leave(Promise.resolve(cluster))
      throw cause
    }
  }
}

const leave = (opened: Promise<Cluster>): void => void opened.then((cluster) => cluster.disconnect()).catch(nothing)

/** The log is written without transactions. */
export const READ_UNCOMMITTED = 0

/** Kafka's name of an error (`NOT_LEADER_FOR_PARTITION`), if a broker gave one. */
export const kafkaError = (cause: unknown): string | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if ('type' in error && typeof error.type === 'string') return error.type
  }
  return undefined
}

export const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
