/** Our records as Kafka's and back, with the registry's ids. A registry that does not answer is waited for. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionOf, type PartitionCounts } from '../partition.ts'
import type { Append, LogRecord } from '../port.ts'
import { checkAppend } from '../record.ts'
import { messageOf, type Fetchable } from './client.ts'
import { frame, setId, unframe, type Unframed } from './frame.ts'
import type { Outgoing } from './runs.ts'
import type { Header } from './record-batch.ts'
import { SCHEMA_HEADER, schemaHeader } from './schema-header.ts'
import type { WriterSchema, SchemaIds } from './schemas.ts'
import { MAX_RECORD_BYTES, type TopicNames } from './topics.ts'
import { kafkaBackoff } from './wait.ts'

type RecordsParts = {
  ids: SchemaIds
  schemas: Readonly<Record<string, string>>
  counts: PartitionCounts
  names: TopicNames
  /** Milliseconds that a read waits for the registry. */
  patience: number
  /** The end of the log's life in this process. */
  ending: AbortSignal
  /** Durable when it resolves. */
  putAside(topic: Topic, partition: number, record: Fetchable, reason: string, signal: AbortSignal): Promise<void>
  /** True when the record is among the dead letters. */
  isAside(topic: Topic, partition: number, record: Fetchable, signal: AbortSignal): Promise<boolean>
  say(line: string): void
}

export class Records {
  readonly #parts: RecordsParts
  readonly #headers: ReadonlyMap<string, readonly Header[]>

  constructor(parts: RecordsParts) {
    this.#parts = parts
    this.#headers = new Map(Object.entries(parts.schemas).map(([schema, avro]) => [schema, schemaHeader(schema, avro)]))
  }

  /** Throws `bad_record` for what could not be given back. */
  outgoing(record: Append): Outgoing {
    checkAppend(record)
    const { ids, names, counts } = this.#parts
    const { topic, key, schema, payload, timestamp } = record
    const headers = this.#headers.get(schema)
    if (!headers) throw new InstarError('bad_record', `the log was opened without the schema ${schema}`, { schema })
    const value = frame(payload)
    const keyBytes = Buffer.from(key, 'utf8')
    const size = value.length + keyBytes.length
    if (size > MAX_RECORD_BYTES)
      throw new InstarError('bad_record', `a record of ${size} bytes is larger than ${MAX_RECORD_BYTES}`, {
        topic,
        key,
      })
    return {
      topic: names.of(topic),
      partition: partitionOf(key, counts[topic]),
      message: { key: keyBytes, value, timestamp, headers },
      prepare: (signal) => {
        const id = ids.known(schema)
        if (id === undefined)
          return this.#fromRegistry(() => ids.idOf(schema), signal).then((found) => setId(value, found))
        setId(value, id)
        return undefined
      },
    }
  }

  /**
   * For a subscription: what nobody can read is put aside. Throws `unknown_schema` for a schema that is not known
   * here: that may be a registry, or a build, that was not meant.
   */
  accept(
    topic: Topic,
    partition: number,
    record: Fetchable,
    signal: AbortSignal,
  ): LogRecord | undefined | Promise<LogRecord | undefined> {
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return this.#putAside(topic, partition, record, unframed.bad, signal)
    const known = this.#known(unframed)
    if (known) return unframed.meaning(known)
    return this.#found(topic, partition, record, unframed, signal).then((found) =>
      found === 'bad header'
        ? this.#putAside(topic, partition, record, BAD_HEADER, signal)
        : found && unframed.meaning(found),
    )
  }

  /** For a read: skips unreadable records. Throws as `accept` does. */
  async named(topic: Topic, partition: number, record: Fetchable): Promise<LogRecord | undefined> {
    const { ending, patience } = this.#parts
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return undefined
    const known =
      this.#known(unframed) ??
      (await this.#found(topic, partition, record, unframed, AbortSignal.any([ending, AbortSignal.timeout(patience)])))
    return known === undefined || known === 'bad header' ? undefined : unframed.meaning(known)
  }

  /** The header names the schema; the id depends on the registry that gave it. */
  #known({ header, id }: Framed): WriterSchema | undefined {
    const { ids } = this.#parts
    return header === undefined ? ids.meant(id) : ids.named(header)
  }

  /** Undefined for a record among the dead letters. */
  async #found(
    topic: Topic,
    partition: number,
    record: Fetchable,
    { header, id }: Framed,
    signal: AbortSignal,
  ): Promise<WriterSchema | 'bad header' | undefined> {
    const { ids, isAside } = this.#parts
    if (header !== undefined) return (await this.#fromRegistry(() => ids.findNamed(header), signal)) ?? 'bad header'
    const meaning = await this.#fromRegistry(() => ids.find(id), signal)
    if (meaning || (await isAside(topic, partition, record, signal))) return meaning
    const place = `${topic} ${partition}@${record.offset}`
    throw new InstarError(
      'unknown_schema',
      `${place} names the schema ${id}, which neither this log nor the schema registry knows`,
      { topic, partition, offset: Number(record.offset), id },
    )
  }

  async #putAside(
    topic: Topic,
    partition: number,
    record: Fetchable,
    reason: string,
    signal: AbortSignal,
  ): Promise<undefined> {
    this.#parts.say(`${topic} ${partition}@${record.offset} cannot be read: ${reason}`)
    await this.#parts.putAside(topic, partition, record, reason, signal)
    return undefined
  }

  /** An InstarError that no later try can better is an answer, and is thrown on. */
  async #fromRegistry<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const backoff = kafkaBackoff()
    let told = false
    for (;;) {
      try {
        const answer = await ask()
        if (told) this.#parts.say('the schema registry answers again')
        return answer
      } catch (cause) {
        if (cause instanceof InstarError && !cause.retryable) throw cause
        if (signal.aborted)
          throw new InstarError(
            'log_unavailable',
            `the schema registry does not answer: ${messageOf(cause)}`,
            {},
            { cause },
          )
        if (!told) this.#parts.say(`the schema registry does not answer (${messageOf(cause)}); waiting for it`)
        told = true
        await backoff.wait(signal)
      }
    }
  }
}

type Framed = Exclude<Unframed, { bad: string }>

const BAD_HEADER = `its header ${SCHEMA_HEADER} is not of the form Name.vN fingerprint`
