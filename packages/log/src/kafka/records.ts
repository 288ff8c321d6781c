/** Our records as Kafka's and back, with the registry's ids. A registry that does not answer is waited for. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionOf, type PartitionCounts } from '../partition.ts'
import type { Append, LogRecord } from '../port.ts'
import { checkAppend } from '../record.ts'
import { messageOf, type Fetchable } from './client.ts'
import { frame, setId, unframe } from './frame.ts'
import type { Outgoing } from './producer.ts'
import type { SchemaIds } from './schemas.ts'
import { MAX_RECORD_BYTES, type TopicNames } from './topics.ts'
import { Pauses } from './wait.ts'

export type RecordsParts = {
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
  say(line: string): void
}

export class Records {
  readonly #parts: RecordsParts

  constructor(parts: RecordsParts) {
    this.#parts = parts
  }

  /** Throws `bad_record` for what could not be given back. */
  outgoing(record: Append): Outgoing {
    checkAppend(record)
    const { ids, names, counts, schemas } = this.#parts
    const { topic, key, schema, payload, timestamp } = record
    if (!Object.hasOwn(schemas, schema)) throw new InstarError('bad_record', `the log was opened without the schema ${schema}`, { schema })
    const value = frame(payload)
    const keyBytes = Buffer.from(key, 'utf8')
    const size = value.length + keyBytes.length
    if (size > MAX_RECORD_BYTES) throw new InstarError('bad_record', `a record of ${size} bytes is larger than ${MAX_RECORD_BYTES}`, { topic, key })
    return {
      topic: names.of(topic), partition: partitionOf(key, counts[topic]),
      message: { key: keyBytes, value, timestamp },
      prepare: (signal) => {
        const id = ids.known(schema)
        if (id === undefined) return this.#fromRegistry(() => ids.idOf(schema), signal).then((found) => setId(value, found))
        setId(value, id)
        return undefined
      },
    }
  }

  /** For a subscription: what cannot be read is put aside. */
  accept(topic: Topic, partition: number, record: Fetchable, signal: AbortSignal): LogRecord | undefined | Promise<LogRecord | undefined> {
    const { ids } = this.#parts
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return this.#putAside(topic, partition, record, unframed.bad, signal)
    const schema = ids.nameOf(unframed.id)
    if (schema !== undefined) return unframed.named(schema)
    return this.#fromRegistry(() => ids.find(unframed.id), signal)
      .then((found) => found === undefined ? this.#putAside(topic, partition, record, `there is no schema ${unframed.id}`, signal) : unframed.named(found))
  }

  /** For a read: what cannot be read is passed over. */
  async named(topic: Topic, partition: number, record: Fetchable): Promise<LogRecord | undefined> {
    const { ids, ending, patience } = this.#parts
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return undefined
    const schema = ids.nameOf(unframed.id) ?? await this.#fromRegistry(() => ids.find(unframed.id), AbortSignal.any([ending, AbortSignal.timeout(patience)]))
    return schema === undefined ? undefined : unframed.named(schema)
  }

  async #putAside(topic: Topic, partition: number, record: Fetchable, reason: string, signal: AbortSignal): Promise<undefined> {
    this.#parts.say(`${topic} ${partition}@${record.offset} cannot be read: ${reason}`)
    await this.#parts.putAside(topic, partition, record, reason, signal)
    return undefined
  }

  /** An InstarError is the registry's own answer and is thrown on. */
  async #fromRegistry<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const pauses = new Pauses()
    let told = false
    for (;;) {
      try {
        const answer = await ask()
        if (told) this.#parts.say('the schema registry answers again')
        return answer
      } catch (cause) {
        if (cause instanceof InstarError) throw cause
        if (signal.aborted) throw new InstarError('log_unavailable', `the schema registry does not answer: ${messageOf(cause)}`, {}, { cause })
        if (!told) this.#parts.say(`the schema registry does not answer (${messageOf(cause)}); waiting for it`)
        told = true
        await pauses.pause(signal)
      }
    }
  }
}
