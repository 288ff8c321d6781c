/**
 * The part of a log that was cut, as an archive has it. The archive is opened when it is first needed, and again once the log was
 * cut further than it reaches; of each partition it is held to the record that allowed the cut before anything is read from it.
 */
import { InstarError, recordId, type LogCut } from '@instar/events'
import { TOPICS, type Topic } from '@instar/events/flow'
import { cutsOn, type Cut } from '../cuts.ts'
import type { ArchiveUse, EventLog, Offsets } from '../port.ts'
import type { Archive } from './read.ts'

/** `open` reads the manifest. `address`: for messages. */
export type ArchiveSource = { readonly address: string; open(): Promise<Archive>; close(): Promise<void> }

type Starts = Readonly<Record<number, number>>

export class CutPart {
  readonly #log: EventLog
  readonly #source: ArchiveSource
  #starts: Offsets = {}
  #opened: Promise<Archive> | undefined
  /** `topic partition start` of those that the archive was held to. */
  #held = new Map<string, Promise<void>>()
  #cuts: Promise<Cut[]> | undefined
  #use: () => Omit<ArchiveUse, 'refused'> = () => ({ read: 0, failed: 0, keptBytes: 0 })

  constructor(log: EventLog, source: ArchiveSource) {
    this.#log = log
    this.#source = source
  }

  /** The first offset that the log holds of each partition, as of the last `refresh`; absent: 0. */
  starts(topic: Topic): Starts {
    return this.#starts[topic] ?? {}
  }

  /** Asks the log. True if a start has moved. Throws errors of the log. */
  async refresh(topics: readonly Topic[] = TOPICS): Promise<boolean> {
    const now = (await this.#log.starts?.(topics)) ?? {}
    let moved = false
    for (const [topic, starts] of Object.entries(now) as [Topic, Starts][])
      for (const [partition, start] of Object.entries(starts)) {
        const before = this.#starts[topic]?.[Number(partition)] ?? 0
        if (start <= before) continue
        moved = true
        this.#starts = { ...this.#starts, [topic]: { ...this.#starts[topic], [partition]: start } }
      }
    return moved
  }

  /**
   * The archive, which has the records of these partitions below their starts. Throws `archive_differs`, `archive_damaged`,
   * `archive_unavailable`, and errors of the log.
   */
  async archive(topic: Topic, partitions: readonly number[]): Promise<Archive> {
    const wanted = partitions.filter((partition) => (this.starts(topic)[partition] ?? 0) > 0)
    const before = this.#opened
    try {
      return await this.#heldTo(topic, wanted)
    } catch (error) {
      if (!before || !(error instanceof InstarError) || error.code !== 'archive_differs') throw error
      // More may have been archived, and then cut, since it was opened.
      this.#opened = undefined
      this.#held.clear()
      return this.#heldTo(topic, wanted)
    }
  }

  async #heldTo(topic: Topic, partitions: readonly number[]): Promise<Archive> {
    const archive = await this.#open()
    for (const partition of partitions) await this.#hold(archive, topic, partition)
    return archive
  }

  /** Of the archives that were opened, the last one alone keeps objects. */
  use(): ArchiveUse {
    return { ...this.#use(), refused: 0 }
  }

  async close(): Promise<void> {
    await this.#opened?.catch(() => undefined)
    await this.#source.close()
  }

  /** One that could not be opened is tried again by the next read. */
  #open(): Promise<Archive> {
    const opening = (this.#opened ??= this.#source.open().then((archive) => {
      for (const topic of TOPICS)
        if (archive.partitions(topic) !== this.#log.partitions(topic))
          this.#differs(
            `it has ${archive.partitions(topic)} partitions of ${topic}, the log ${this.#log.partitions(topic)}`,
          )
      if (archive.sequential !== (this.#log.sequential === true))
        this.#differs(archive.sequential ? 'it is of an embedded log' : 'it is of a log on Kafka')
      const before = this.#use()
      this.#use = () => {
        const { read, failed, keptBytes } = archive.use
        return { read: before.read + read, failed: before.failed + failed, keptBytes }
      }
      return archive
    }))
    opening.catch(() => {
      if (this.#opened === opening) this.#opened = undefined
    })
    return opening
  }

  #hold(archive: Archive, topic: Topic, partition: number): Promise<void> {
    const start = this.starts(topic)[partition]!
    const name = `${topic} ${partition} ${start}`
    const known = this.#held.get(name)
    if (known) return known
    const holding = this.#check(archive, topic, partition, start)
    this.#held.set(name, holding)
    holding.catch(() => this.#held.delete(name))
    return holding
  }

  async #check(archive: Archive, topic: Topic, partition: number, start: number): Promise<void> {
    const end = (await archive.ends([topic]))[topic]?.[partition] ?? 0
    if (end < start) this.#differs(`it ends at ${end} of ${topic} ${partition}, and the log begins at ${start}`)
    let allowed = await this.#allowedFrom(topic, partition, start)
    if (allowed.length === 0) {
      this.#cuts = undefined
      allowed = await this.#allowedFrom(topic, partition, start)
    }
    // A copy of a log has the records of cuts of the log that it is of, too.
    for (const one of allowed) {
      const last = await archive.lastBefore(topic, partition, one.start)
      if ((last ? recordId(last) : null) === one.record) return
      // The last one before the cut may have been damaged on the log, and so is in no archive.
      if (archive.isDamagedBetween(topic, partition, (last?.offset ?? -1) + 1, one.start)) return
    }
    if (allowed.length > 0)
      this.#differs(`its records of ${topic} ${partition} before ${start} are not those that were cut from the log`)
  }

  /** Cuts of the partition that reach the offset, as the records on the log allow them. */
  async #allowedFrom(topic: Topic, partition: number, start: number): Promise<LogCut['starts']> {
    const reading = (this.#cuts ??= cutsOn(this.#log))
    reading.catch(() => {
      if (this.#cuts === reading) this.#cuts = undefined
    })
    return (await reading).flatMap(({ event }) =>
      event.starts.filter((one) => one.topic === topic && one.partition === partition && one.start >= start),
    )
  }

  #differs(what: string): never {
    const { address } = this.#source
    throw new InstarError('archive_differs', `${address} is not the archive of what was cut from this log: ${what}`, {
      archive: address,
    })
  }
}
