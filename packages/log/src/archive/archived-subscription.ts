/**
 * A subscription from below what the log holds: of each partition first the records that an archive has, then those of the log.
 * Topics that begin on the log are delivered beside it at once; calls of the handler do not overlap.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { isCutAway } from '../cuts.ts'
import type { EventLog, LogRecord, Offsets, Position, SubscribeOptions, Subscription } from '../port.ts'
import { PAGE_RECORDS, startsOf } from '../reading.ts'
import { endsOf, pagesBelow, type ArchivedPorts } from './archived-pages.ts'

/** `ports.read`: of the log with its archive. */
export const subscribeWithArchive = async (ports: ArchivedPorts, options: SubscribeOptions): Promise<Subscription> => {
  const { log, part } = ports
  try {
    // Of a topic by partition each partition may begin in the archive when it is taken.
    if (options.byPartition === undefined) return await log.subscribe(options)
  } catch (error) {
    if (!isCutAway(error)) throw error
  }
  const from = await offsetsFrom(log, options)
  if (from === null) return log.subscribe(options)
  await part.refresh()
  return ArchivedSubscription.start(ports, options, from)
}

/** Null: only a subscription knows what was committed. */
const offsetsFrom = async (log: EventLog, { from, group, topics }: SubscribeOptions): Promise<Offsets | null> => {
  if (from === 'start') return {}
  if (from !== 'committed') return from
  return log.committed ? ((await log.committed(group, topics)) ?? {}) : null
}

/** Of each partition the next offset to deliver. */
type Next = Map<Topic, number[]>
/** A partition of the topic by partition, from its `take` on. */
type Taken = { released: boolean }

class ArchivedSubscription implements Subscription {
  readonly done: Promise<void>
  readonly #ports: ArchivedPorts
  readonly #options: SubscribeOptions
  readonly #ended = Promise.withResolvers<void>()
  readonly #stopping = new AbortController()
  readonly #taken = new Map<number, Taken>()
  /** On the log: of the topics that begin there, and once they have reached it of the others. */
  readonly #lives: Subscription[] = []
  /** Resolves when the topics that begin in the archive have reached the log, or the subscription has ended. */
  #behind: Promise<void> = Promise.resolve()
  #handling: Promise<unknown> = Promise.resolve()
  #failed: { cause: unknown } | undefined

  static async start(ports: ArchivedPorts, options: SubscribeOptions, from: Offsets): Promise<Subscription> {
    const { log, part } = ports
    const next: Next = new Map()
    for (const topic of options.topics) {
      if (topic === options.byPartition) continue
      const offsets = startsOf(topic, from[topic] ?? {}, await endsOf(log, topic))
      const cut = offsets.flatMap((offset, partition) =>
        offset < (part.starts(topic)[partition] ?? 0) ? [partition] : [],
      )
      if (cut.length === 0) continue
      await part.archive(topic, cut)
      next.set(topic, offsets)
    }
    const subscription = new ArchivedSubscription(ports, options)
    await subscription.#begin(next, from)
    return subscription
  }

  private constructor(ports: ArchivedPorts, options: SubscribeOptions) {
    this.#ports = ports
    this.#options = options
    this.done = this.#ended.promise
    this.done.catch(() => undefined)
  }

  commit(positions: readonly Position[]): Promise<void> {
    const { log } = this.#ports
    return log.commit ? log.commit(this.#options.group, positions) : this.#lives[0]!.commit(positions)
  }

  async caughtUp(): Promise<void> {
    this.#check()
    await Promise.all([this.#behindReached(), ...this.#lives.map((live) => live.caughtUp())])
  }

  /** Also the topics that began in the archive. */
  async #behindReached(): Promise<void> {
    const before = this.#lives.length
    await this.#orEnded(this.#behind)
    this.#check()
    await Promise.all(this.#lives.slice(before).map((live) => live.caughtUp()))
  }

  async take(partition: number, from: () => number): Promise<void> {
    this.#check()
    const { byPartition: topic } = this.#options
    if (topic === undefined) throw new InstarError('internal', 'the subscription has no topic by partition')
    this.release(partition)
    const taken: Taken = { released: false }
    this.#taken.set(partition, taken)
    const offset = await this.#exclusive(() => (taken.released ? null : from()))
    if (offset === null) return
    await this.#orEnded(this.#takeFrom({ topic, partition, offset }, taken))
    if (!taken.released) await this.#behindReached()
  }

  release(partition: number): void {
    const taken = this.#taken.get(partition)
    if (!taken) return
    taken.released = true
    this.#taken.delete(partition)
    this.#lives[0]!.release(partition)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#behind
    await Promise.all(this.#lives.map((live) => live.stop()))
    await this.#handling
    if (!this.#failed) this.#ended.resolve()
  }

  async #begin(next: Next, from: Offsets): Promise<void> {
    const { topics, byPartition } = this.#options
    const taken = byPartition === undefined ? {} : { [byPartition]: this.#ports.part.starts(byPartition) }
    const held = topics.filter((topic) => !next.has(topic))
    // Without a topic, too, where only a subscription can commit.
    if (held.length > 0 || !this.#ports.log.commit) await this.#follow(held, { ...from, ...taken })
    this.#behind = this.#reachLog(next).catch((cause: unknown) => {
      if (!this.#stopping.signal.aborted) this.#fail(cause)
    })
  }

  /** Delivers topics from the log. */
  async #follow(topics: readonly Topic[], from: Offsets): Promise<void> {
    const { gather, byPartition, ...options } = this.#options
    const late = gather?.topics.filter((topic) => topics.includes(topic)) ?? []
    const live = await this.#ports.log.subscribe({
      ...options,
      topics,
      from,
      ...(gather && late.length > 0 ? { gather: { ...gather, topics: late } } : {}),
      ...(byPartition !== undefined && topics.includes(byPartition) ? { byPartition } : {}),
      handle: (records) => this.#handle(records, () => true),
    })
    this.#lives.push(live)
    live.done.catch((cause: unknown) => this.#fail(cause))
    if (this.#stopping.signal.aborted) await live.stop()
  }

  /** Delivers what was cut of these topics, a page of each in turn, and then follows the log. */
  async #reachLog(next: Next): Promise<void> {
    while (next.size > 0) {
      const all = await Promise.all([...next].map(([topic, offsets]) => pagesBelow(this.#ports, topic, offsets)))
      try {
        for (let open = all; open.length > 0;) {
          for (const { pages } of open) {
            const { done, value } = await this.#orEnded(pages.next())
            if (done) open = open.filter((one) => one.pages !== pages)
            else await this.#deliver(value, () => true)
          }
        }
      } finally {
        for (const { pages } of all) pages.return?.().catch(() => undefined)
      }
      for (const { topic, until } of all) next.set(topic, until)
      try {
        return await this.#follow([...next.keys()], offsetsOf(next))
      } catch (error) {
        // The log was cut further meanwhile.
        if (!isCutAway(error) || !(await this.#ports.part.refresh())) throw error
      }
    }
  }

  async #takeFrom({ topic, partition, offset }: Position, taken: Taken): Promise<void> {
    const { part, read } = this.#ports
    await part.refresh([topic])
    for (let next = offset; ;) {
      const start = part.starts(topic)[partition] ?? 0
      if (next < start) {
        const range = { partition, from: { [topic]: { [partition]: next } }, to: { [topic]: { [partition]: start } } }
        for await (const page of read(topic, range)) {
          await this.#deliver(page, () => !taken.released)
          if (taken.released) return
        }
        next = start
      }
      if (taken.released) return
      try {
        return await this.#lives[0]!.take(partition, () => next)
      } catch (error) {
        if (!isCutAway(error) || !(await part.refresh([topic]))) throw error
      }
    }
  }

  /** The records of a page, by partition. */
  async #deliver(page: readonly LogRecord[], wanted: () => boolean): Promise<void> {
    const { maxBatch = PAGE_RECORDS } = this.#options
    for (const records of Map.groupBy(page, ({ partition }) => partition).values())
      for (let at = 0; at < records.length; at += maxBatch)
        await this.#handle(records.slice(at, at + maxBatch), wanted).catch((cause: unknown) => {
          this.#fail(cause)
          throw cause
        })
    this.#check()
  }

  #handle(records: readonly LogRecord[], wanted: () => boolean): Promise<void> {
    return this.#exclusive(async () => {
      if (!this.#stopping.signal.aborted && wanted()) await this.#options.handle(records)
    })
  }

  #exclusive<T>(work: () => T | Promise<T>): Promise<T> {
    const done = this.#handling.then(work)
    this.#handling = done.catch(() => undefined)
    return done
  }

  #fail(cause: unknown): void {
    if (this.#failed) return
    this.#failed = { cause }
    this.#stopping.abort()
    void Promise.allSettled(this.#lives.map((live) => live.stop())).then(() => this.#ended.reject(cause))
  }

  /** Rejects as soon as the subscription has ended. */
  #orEnded<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#stopping
    return new Promise((resolve, reject) => {
      const end = (): void => reject(this.#refusal())
      if (signal.aborted) return end()
      signal.addEventListener('abort', end, { once: true })
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
    })
  }

  #check(): void {
    if (this.#stopping.signal.aborted) throw this.#refusal()
  }

  #refusal(): unknown {
    return this.#failed ? this.#failed.cause : new InstarError('log_unavailable', 'the subscription was stopped')
  }
}

const offsetsOf = (next: Next): Offsets =>
  Object.fromEntries([...next].map(([topic, offsets]) => [topic, { ...offsets }]))
