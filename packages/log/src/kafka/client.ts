/**
 * Connections to the brokers, with kafkajs's cluster and broker objects.
 *
 * kafkajs's producer and consumer are not used: the producer loses acknowledged records, since it does not keep
 * sequence numbers and responses consistent across its retries; the consumer cannot read without joining a group.
 * kafkajs's lower layers provide metadata, produce requests with given sequence numbers and fetches from given offsets.
 * They are not part of its public interface, so the version is pinned.
 */
import { createRequire } from 'node:module'
import type { Broker as PublicBroker, Cluster as PublicCluster } from 'kafkajs'
import { decodeFetch, encodeFetch, rotated, type FetchRequest, type FetchResponse } from './fetch-codec.ts'
import { encodeProduce, type ProduceRequest } from './record-batch.ts'
import './kafkajs-defects.ts'
import { kafkajsSecurity, socketFactory, type Security } from './security.ts'

export type ClientOptions = {
  /** `host:port` of some of the brokers. */
  brokers: readonly string[]
  /** The client id in the brokers' logs. */
  clientId: string
  /** Timeout of a request in milliseconds. Default 15,000. */
  requestTimeout?: number
  /** Default: no TLS and no authentication. */
  security?: Security
}

type ListedOffsets = { topic: string; partitions: { partition: number; offset: string }[] }

/** `timestamp` and `offset` are decimal numbers. `headers`: those whose names start with `instar.`. */
export type KafkaRecord = {
  key: Buffer | null
  value: Buffer | null
  timestamp: string
  offset: string
  isControlRecord: boolean
  headers?: Record<string, unknown>
}
type ProduceResponse = {
  topics: { topicName: string; partitions: { partition: number; errorCode: number; baseOffset: string }[] }[]
}

/** The request encoder and response decoder of the version that the broker supports. */
type Protocol = {
  request: { apiVersion: number; encode(): Promise<object> }
  response: object
  requestTimeout?: number
}
type Versioned = (request: object) => Protocol

export type Broker = Omit<PublicBroker, 'produce' | 'fetch'> & {
  lookupRequest(apiKey: number, definition: object): Versioned
  connectionPool: { send(protocol: Protocol): Promise<unknown> }
  initProducerId(request: {
    transactionalId?: string
    transactionTimeout: number
  }): Promise<{ producerId: string; producerEpoch: number }>
  deleteRecords(request: {
    topics: { topic: string; partitions: { partition: number; offset: string }[] }[]
  }): Promise<unknown>
  listOffsets(request: {
    replicaId: number
    isolationLevel: number
    topics: { topic: string; partitions: { partition: number; timestamp: number }[] }[]
  }): Promise<{ responses: ListedOffsets[] }>
  /** Fetches batches without decoding them, of the partitions in any order. Throws the error of the first partition that has one. */
  fetchBatches(request: FetchRequest): Promise<FetchResponse>
  describeConfigs(request: { resources: { type: number; name: string; configNames: string[] }[] }): Promise<{
    resources: { resourceName: string; configEntries: { configName: string; configValue: string }[] }[]
  }>
  /** Resolves when every member has joined, or after `rebalanceTimeout` ms. Only the leader receives the members. */
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
  /** Resolves when the leader has sent its assignment. */
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

const apiKeys = require('kafkajs/src/protocol/requests/apiKeys.js') as { Produce: number; Fetch: number }
const { requests } = require('kafkajs/src/protocol/requests/index.js') as {
  requests: { Produce: object; Fetch: object }
}

const { createErrorFromCode } = require('kafkajs/src/protocol/error.js') as {
  createErrorFromCode(code: number): Error
}

/** The first version with record batches of magic 2. */
const MIN_PRODUCE_VERSION = 3

/**
 * Sends a produce request encoded by `encodeProduce`, through kafkajs. The error codes of partitions are in the response:
 * kafkajs would throw the first and drop the acknowledgements of the others.
 */
export const produce = async (broker: Broker, request: ProduceRequest): Promise<ProduceResponse> => {
  const { acks, timeout } = request
  const protocol = broker.lookupRequest(apiKeys.Produce, requests.Produce)({ acks, timeout, topicData: [] })
  if (protocol.request.apiVersion < MIN_PRODUCE_VERSION)
    throw new Error(
      `the broker supports produce requests up to version ${protocol.request.apiVersion}; version ${MIN_PRODUCE_VERSION} is required`,
    )
  const body = encodeProduce(request)
  const response = await broker.connectionPool.send({
    response: { ...protocol.response, parse: (response: object) => response },
    request: { ...protocol.request, encode: () => Promise.resolve({ buf: body, buffer: body }) },
  })
  return response as ProduceResponse
}

/** kafkajs's error of a code; undefined for 0. */
export const errorOfCode = (code: number): Error | undefined => (code === 0 ? undefined : createErrorFromCode(code))

const silent = {
  info: nothing,
  error: nothing,
  warn: nothing,
  debug: nothing,
  namespace: () => silent,
  setLogLevel: nothing,
}
function nothing(): void {
  /* Errors are reported to the caller. */
}

const NewCluster = require('kafkajs/src/cluster/index.js') as new (options: Record<string, unknown>) => Cluster

/**
 * Two extensions of kafkajs:
 * - kafkajs rejects the metadata of all topics if one partition has no leader. Here such a partition has leader -1.
 * - `fetchBatches` has its own codec (fetch-codec.ts), and does not decode batches (record-set.ts).
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

const { prototype: brokers } = require('kafkajs/src/broker/index.js') as { prototype: Broker }
brokers.fetchBatches = async function (this: Broker, asked: FetchRequest): Promise<FetchResponse> {
  const { request, ...protocol } = this.lookupRequest(apiKeys.Fetch, requests.Fetch)({ ...asked, topics: [] })
  const { apiVersion } = request
  const body = encodeFetch(apiVersion, { ...asked, topics: rotated(asked.topics, Math.random()) })
  const response = await this.connectionPool.send({
    ...protocol,
    request: { ...request, encode: () => Promise.resolve({ buf: body, buffer: body }) },
    response: {
      decode: (bytes: Buffer) => Promise.resolve(decodeFetch(apiVersion, bytes)),
      parse: (decoded: ReturnType<typeof decodeFetch>) => {
        const { errorCode, responses } = decoded
        const error = errorOfCode(
          errorCode || (responses.flatMap(({ partitions }) => partitions).find((one) => one.errorCode)?.errorCode ?? 0),
        )
        if (error) throw error
        return decoded
      },
    },
  })
  return response as FetchResponse
}

/** The message of an authentication or TLS error of either side; undefined for other errors. */
export const accessError = (cause: unknown): string | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if (error.name.startsWith('KafkaJSSASLAuthenticationError') || CERTIFICATE.test(error.message)) return error.message
  }
  return undefined
}
const CERTIFICATE = /certificate|SSL alert|ssl3_|wrong version number|altnames/i

/** kafkajs makes few, short retries; `withRetries` retries longer, can be stopped, and reports what it waits for. */
const RETRY = { retries: 2, initialRetryTime: 50, maxRetryTime: 200, factor: 0.2, multiplier: 2 }

const REQUEST_TIMEOUT_MS = 15_000

/** Partitions have no leader. `KafkaConnection.use` refreshes the metadata and keeps the connections. */
export class NoLeader extends Error {
  constructor(partitions: readonly { topic: string; partition: number }[]) {
    super(`${partitions.map(({ topic, partition }) => `${topic} ${partition}`).join(', ')}: no leader`)
  }
}

/**
 * Connections to all brokers, opened at first use and replaced after any failure, so that leaders are looked up again
 * and no socket of a stopped broker is reused.
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

  /** Runs `work`. Closes the connections and rethrows on an error; keeps them after `NoLeader`. */
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
      disconnect(opened)
      throw cause
    }
  }

  /**
   * Closes the connections once the requests in progress have settled, without waiting for that. `abandon`: at once, since nobody
   * needs their answers: a fetch may wait for a record, and the process does not exit before its connections are closed.
   */
  close({ abandon = false }: { abandon?: boolean } = {}): void {
    this.#closed = true
    if (this.#cluster && abandon) this.#cluster.then(abandonRequests).catch(nothing)
    if (this.#cluster) disconnect(this.#cluster)
    this.#cluster = undefined
  }

  async #open(): Promise<Cluster> {
    const { brokers, clientId, requestTimeout = REQUEST_TIMEOUT_MS, security } = this.#options
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
      disconnect(Promise.resolve(cluster))
      throw cause
    }
  }
}

/** Parts of kafkajs's cluster that its types do not have. */
type Pools = {
  brokerPool: {
    brokers: Record<string, { connectionPool: { pool: { requestQueue: { rejectAll(error: Error): void } }[] } }>
  }
}
const abandonRequests = (cluster: Cluster): void => {
  for (const { connectionPool } of Object.values((cluster as unknown as Pools).brokerPool.brokers))
    for (const { requestQueue } of connectionPool.pool) requestQueue.rejectAll(new Error('the connection is closed'))
}

const disconnect = (opened: Promise<Cluster>): void =>
  void opened.then((cluster) => cluster.disconnect()).catch(nothing)

/** The isolation level of fetches: the log is written without transactions. */
export const READ_UNCOMMITTED = 0

/** Kafka's name of an error (`NOT_LEADER_FOR_PARTITION`) if a broker returned it; undefined for other errors. */
export const kafkaError = (cause: unknown): string | undefined => {
  for (let error = cause; error instanceof Error; error = error.cause) {
    if ('type' in error && typeof error.type === 'string') return error.type
  }
  return undefined
}

export const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
