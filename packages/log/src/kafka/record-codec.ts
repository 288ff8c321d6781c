/** Conversion between the log's records and Kafka's, with the registry's schema ids. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionOf, type PartitionCounts } from '../partition.ts'
import type { Append, LogRecord } from '../port.ts'
import { checkAppend } from '../record.ts'
import { messageOf, type KafkaRecord } from './client.ts'
import { NOT_OF_THE_LOG, encodeValue, setSchemaId, parseRecord, type ParsedRecord } from './wire-format.ts'
import type { OutgoingRecord } from './producer-batch.ts'
import type { Header } from './record-batch.ts'
import { schemaHeader } from './schema-header.ts'
import { typeOf } from './schema-names.ts'
import type { WriterSchema, SchemaResolver } from './schemas.ts'
import { MAX_RECORD_BYTES, type TopicNames } from './topics.ts'
import { kafkaBackoff } from './retry.ts'

export type RecordCodecParts = {
  resolver: SchemaResolver
  schemas: Readonly<Record<string, string>>
  counts: PartitionCounts
  names: TopicNames
  /** Milliseconds for which a read retries requests to the registry. */
  retryMs: number
  /** Aborted when the log is closed. */
  ending: AbortSignal
  /** Copies a record to the dead letters; durable when it resolves. */
  deadLetter(topic: Topic, partition: number, record: KafkaRecord, reason: string, signal: AbortSignal): Promise<void>
  /** Whether the record is among the dead letters of `maxAgeMs` ago or later. */
  isDeadLetter(
    topic: Topic,
    partition: number,
    record: KafkaRecord,
    maxAgeMs: number,
    signal: AbortSignal,
  ): Promise<boolean>
  logLine(line: string): void
}

export class RecordCodec {
  readonly #parts: RecordCodecParts
  readonly #headers: ReadonlyMap<string, readonly Header[]>
  readonly #types: ReadonlySet<string>

  constructor(parts: RecordCodecParts) {
    this.#parts = parts
    this.#types = new Set(Object.keys(parts.schemas).map(typeOf))
    this.#headers = new Map(Object.entries(parts.schemas).map(([schema, avro]) => [schema, schemaHeader(schema, avro)]))
  }

  /** Encodes a record for the producer. Throws `bad_record` if it is invalid, too large or has an unknown schema. */
  encode(record: Append): OutgoingRecord {
    checkAppend(record)
    const { resolver, names, counts } = this.#parts
    const { topic, key, schema, payload, timestamp } = record
    const headers = this.#headers.get(schema)
    if (!headers)
      throw new InstarError('bad_record', `the schema ${schema} is not among those that the log was opened with`, {
        schema,
      })
    const value = encodeValue(payload)
    const keyBytes = Buffer.from(key, 'utf8')
    const size = value.length + keyBytes.length
    if (size > MAX_RECORD_BYTES)
      throw new InstarError('bad_record', `the record has ${size} bytes, the maximum is ${MAX_RECORD_BYTES}`, {
        topic,
        key,
      })
    return {
      topic: names.of(topic),
      partition: partitionOf(key, counts[topic]),
      message: { key: keyBytes, value, timestamp, headers },
      prepare: (signal) => {
        const id = resolver.cachedId(schema)
        if (id === undefined)
          return this.#retryRegistry(() => resolver.idOf(schema), signal).then((resolved) =>
            setSchemaId(value, resolved),
          )
        setSchemaId(value, id)
        return undefined
      },
    }
  }

  /**
   * Decodes a record of a subscription. An unreadable record is copied to the dead letters, and the result is
   * undefined. Throws `unknown_schema` for an unknown schema id: the registry may be the wrong one.
   */
  decodeOrDeadLetter(
    topic: Topic,
    partition: number,
    record: KafkaRecord,
    signal: AbortSignal,
  ): LogRecord | undefined | Promise<LogRecord | undefined> {
    const parsed = parseRecord(topic, partition, record)
    if ('unreadable' in parsed) return this.#deadLetter(topic, partition, record, parsed.unreadable, signal)
    const cached = this.#cached(parsed)
    if (cached && this.#isOfBuild(cached)) return parsed.toLogRecord(cached)
    return this.#resolve(topic, partition, record, parsed, signal).then((schema) =>
      schema === 'bad header'
        ? this.#deadLetter(topic, partition, record, NOT_OF_THE_LOG.badHeader, signal)
        : schema && parsed.toLogRecord(schema),
    )
  }

  /** Decodes a record of a read; undefined if it is unreadable. Throws as `decodeOrDeadLetter` does. */
  async decode(topic: Topic, partition: number, record: KafkaRecord): Promise<LogRecord | undefined> {
    const { ending, retryMs } = this.#parts
    const parsed = parseRecord(topic, partition, record)
    if ('unreadable' in parsed) return undefined
    const cached = this.#cached(parsed)
    if (cached && this.#isOfBuild(cached)) return parsed.toLogRecord(cached)
    const signal = AbortSignal.any([ending, AbortSignal.timeout(retryMs)])
    const schema = await this.#resolve(topic, partition, record, parsed, signal)
    return schema === undefined || schema === 'bad header' ? undefined : parsed.toLogRecord(schema)
  }

  /** The schema if it was resolved before. The header takes precedence, since ids depend on the registry. */
  #cached({ header, id }: ReadableRecord): WriterSchema | undefined {
    const { resolver } = this.#parts
    return header === undefined ? resolver.cachedById(id) : resolver.cachedByHeader(header)
  }

  /** Whether this build has a version of the record type. Readers stop at other types unless they are dead letters. */
  #isOfBuild({ schema }: WriterSchema): boolean {
    return this.#headers.has(schema) || this.#types.has(typeOf(schema))
  }

  /** Resolves a schema. Undefined if the record is among the dead letters. */
  async #resolve(
    topic: Topic,
    partition: number,
    record: KafkaRecord,
    parsed: ReadableRecord,
    signal: AbortSignal,
  ): Promise<WriterSchema | 'bad header' | undefined> {
    const { header, id } = parsed
    const { resolver, isDeadLetter } = this.#parts
    const position = `${topic} ${partition}@${record.offset}`
    const details = { topic, partition, offset: Number(record.offset) }
    let schema = this.#cached(parsed)
    try {
      schema ??= await this.#retryRegistry(
        () => (header === undefined ? resolver.findById(id) : resolver.findByHeader(header)),
        signal,
      )
      if (!schema && header !== undefined) return 'bad header'
    } catch (cause) {
      if (!(cause instanceof InstarError && cause.code === 'schema_changed')) throw cause
      if (await isDeadLetter(topic, partition, record, 0, signal)) return undefined
      throw new InstarError(cause.code, `${position}: ${cause.message}`, { ...cause.details, ...details }, { cause })
    }
    if (schema && this.#isOfBuild(schema)) return schema
    if (await isDeadLetter(topic, partition, record, schema ? OTHER_TYPE_MS : 0, signal)) return undefined
    if (schema) return schema
    throw new InstarError(
      'unknown_schema',
      `${position} has schema id ${id}, which neither this log nor the schema registry has`,
      { ...details, id },
    )
  }

  async #deadLetter(
    topic: Topic,
    partition: number,
    record: KafkaRecord,
    reason: string,
    signal: AbortSignal,
  ): Promise<undefined> {
    this.#parts.logLine(`${topic} ${partition}@${record.offset} cannot be read: ${reason}`)
    try {
      await this.#parts.deadLetter(topic, partition, record, reason, signal)
    } catch (cause) {
      // The record stays on its topic, and a copy that Kafka rejects is rejected at every start.
      if (!(cause instanceof InstarError && cause.code === 'bad_record')) throw cause
      this.#parts.logLine(`${topic} ${partition}@${record.offset} is not copied to the dead letters: ${cause.message}`)
    }
    return undefined
  }

  /**
   * Retries a request to the registry until the signal is aborted. Errors that are not retryable are thrown at once.
   */
  async #retryRegistry<T>(request: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const backoff = kafkaBackoff()
    let reported = false
    for (;;) {
      try {
        const result = await request()
        if (reported) this.#parts.logLine('the schema registry responds again')
        return result
      } catch (cause) {
        if (cause instanceof InstarError && !cause.retryable) throw cause
        if (signal.aborted)
          throw new InstarError(
            'log_unavailable',
            `the schema registry does not respond: ${messageOf(cause)}`,
            {},
            { cause },
          )
        if (!reported) this.#parts.logLine(`the schema registry does not respond (${messageOf(cause)}); retrying`)
        reported = true
        await backoff.wait(signal)
      }
    }
  }
}

/** The age of the dead letters against which a record of a type that this build does not have is checked. */
const OTHER_TYPE_MS = 1_000

type ReadableRecord = Exclude<ParsedRecord, { unreadable: string }>
