/** Common parts of all services: reading in an order of their own, sending late, pausing, being killed. */
import { encodeEvent, type Event, type Logged, type Topic } from '@instar/events'
import { Snapshot } from '@instar/log'
import type { Left, Note } from './history/decision.ts'
import { Disk, MemoryFile } from './memory-file.ts'
import { bend, type Folds } from './rules.ts'
import { newer } from '../upgrade/newer.ts'
import { placeOf, slot, type Ends, type Newer, type SimRecord } from './sim-log.ts'
import type { World } from './world.ts'

/** The number of table entries in memory, so small that most are read from their bytes. */
const ROOM = 4
/** Turns of a session in a row, so few that sessions have several rows. */
const ROW_TURNS = 2

/** Returns a snapshot for a state; null: all of it is in memory and is lost with the process. */
export type Keeping = ((name: string) => Snapshot) | null
type Sending = { record: SimRecord; landed: (logged: Logged<Event>) => void; refused: (() => void) | null }

export abstract class Process<S> {
  readonly name: string
  readonly world: World
  readonly topics: readonly Topic[]
  /** By snapshot; null: nothing is kept between two lives. */
  readonly disks: Map<string, Disk> | null
  #snapshots: Snapshot[] = []
  #state: S | null = null
  alive = false
  /** Partitions whose work it processes. It may read and write the others. */
  share: ReadonlySet<number> = new Set()
  /** What was on the log when each partition of its share was given to it. */
  received: ReadonlyMap<number, Ends> = new Map()
  /** It is paused until this step and then continues with its state. */
  stoppedUntil = 0
  /** How many steps its clock is ahead of the world's. */
  skew = 0
  /** Whether it is of the newer build. */
  newer = false
  positions = new Map<string, number>()
  committed = new Map<string, number>()
  /** A rule that is switched off is off for the live services. */
  readonly live: boolean = true
  /** Records, and places of records, in the order in which this life read them. */
  #read = new Map<string, number>()
  /** Decided and not sent yet. */
  outbox: Sending[] = []
  /** The ends of its topics at its start: it decides nothing before it has read up to them. */
  #until: Ends = new Map()
  /** Appends in progress belong to one life. */
  life = {}

  constructor(world: World, name: string, topics: readonly Topic[], keeps: boolean) {
    this.world = world
    this.name = name
    this.topics = topics
    this.disks = keeps ? new Map() : null
  }

  /** Its state after a start; `snapshot` provides files for it. */
  abstract fresh(kept: Keeping): S
  abstract evolve(logged: Logged<Event>): void
  abstract folds(): Folds
  /** Makes one decision and carries it out; false without one. */
  abstract act(): boolean
  /** What is lost with its memory. */
  abstract forget(): void
  /** What it waits for; null when it is idle. */
  abstract waits(): string | null

  get state(): S {
    if (this.#state === null) throw new Error(`${this.name} has not been started`)
    return this.#state
  }

  get now(): number {
    return this.world.now + this.skew
  }

  /** Everything is read, and kept state is restored. */
  restored(): void {
    return undefined
  }

  get running(): boolean {
    return this.alive && this.stoppedUntil <= this.world.step
  }

  mine = (partition: number): boolean => this.share.has(partition)

  give(share: ReadonlySet<number>): void {
    this.share = share
    this.received = new Map(
      [...share].map((partition) => [partition, this.received.get(partition) ?? this.endsFor(partition)]),
    )
    this.shared()
  }

  /** What is to be read before it works on a partition that it is given now. */
  endsFor(_partition: number): Ends {
    return new Map()
  }

  /** Its share changes. */
  shared(): void {
    return undefined
  }

  fold(logged: Logged<Event>): void {
    const bent = this.live ? bend(this.world.off, this.folds(), logged) : logged
    if (bent) this.evolve(bent)
  }

  /** Reads some records of one partition; false if all has been read. A record of a newer build ends the process. */
  read(most: number): boolean {
    const { random, log } = this.world
    const unread = this.unread()
    if (unread.length === 0) return false
    const name = random.pick(unread)
    const records = log.partitions.get(name)!
    const from = this.positions.get(name) ?? 0
    const to = Math.min(records.length, from + 1 + random.below(most))
    for (let at = from; at < to; at += 1) {
      const record = records[at]!
      if (record.newer?.stops && !this.newer) return this.#mustStop(record)
      const logged = log.decode(record, this.newer)
      if (logged) {
        if (!this.#read.has(logged.id)) this.#read.set(logged.id, this.#read.size)
        this.#read.set(placeOf(logged.id, logged.offset), this.#read.size)
        this.fold(logged)
        for (const snapshot of this.#snapshots) if (this.keeps(snapshot, logged.topic)) void snapshot.after(logged)
      }
      this.positions.set(name, at + 1)
    }
    if (random.chance(0.3)) this.committed = new Map(this.positions)
    return true
  }

  /** Whether a snapshot of several covers this topic. */
  keeps(_snapshot: Snapshot, _topic: Topic): boolean {
    return true
  }

  #mustStop(record: Parameters<World['log']['decode']>[0]): boolean {
    try {
      this.world.log.decode(record, false)
      this.world.broken(`${this.name} passed over a record of a version that it does not know`)
    } catch (error) {
      if ((error as { code?: string }).code !== 'unknown_record') throw error
    }
    this.kill()
    return false
  }

  unread(): string[] {
    if (!this.alive) return []
    return this.topics
      .flatMap((topic) => [0, 1].map((partition) => slot(topic, partition)))
      .filter((name) => (this.positions.get(name) ?? 0) < (this.world.log.partitions.get(name)?.length ?? 0))
  }

  hasRead(ends: Ends): boolean {
    return [...ends].every(([name, end]) => (this.positions.get(name) ?? 0) >= end)
  }

  /** The topics of which all partitions are read. */
  get whole(): readonly Topic[] {
    return this.topics
  }

  get ready(): boolean {
    return this.alive && this.hasRead(this.#until)
  }

  /** Sends an event; `landed` is the acknowledgement. `note`: its inputs besides the log. */
  append(
    event: Event,
    note: Note = {},
    landed: Sending['landed'] = () => undefined,
    refused: Sending['refused'] = null,
  ): string {
    const record = {
      ...encodeEvent(event),
      newer: this.newer && this.world.random.chance(0.1) ? newerOf(event, this.world.random.chance(0.3)) : null,
    }
    const { name: writer, life, now, share, received } = this
    this.world.decided({
      id: record.id,
      event,
      writer,
      life,
      seen: this.known(event),
      left: this.left,
      now,
      share,
      received,
      note,
      read: this.disks ? null : this.#read,
    })
    this.outbox.push({ record, landed, refused })
    return record.id
  }

  /** As in `Decided`. */
  get left(): Left | null {
    return null
  }

  /** How much of the log it had read at the decision. */
  known(_event: Event): Map<string, number> {
    return new Map(this.positions)
  }

  /** False with nothing to send. A refused append is retried or abandoned. */
  send(): boolean {
    const next = this.outbox.shift()
    if (!next) return false
    const { life } = this
    if (this.world.refuses()) {
      if (next.refused && this.world.random.chance(0.5)) next.refused()
      else this.outbox.unshift(next)
      return true
    }
    this.world.log.send(next.record, life, (logged) => {
      if (!this.alive || this.life !== life) return
      if (this.world.off === 'readBack') this.fold(logged)
      next.landed(logged)
    })
    return true
  }

  async takeSnapshot(): Promise<void> {
    for (const snapshot of this.#snapshots) await snapshot.save()
  }

  kill(): void {
    this.alive = false
    this.world.log.lose(this.life)
    this.outbox = []
    this.#snapshots = []
    this.forget()
  }

  async start(): Promise<void> {
    const { world, disks } = this
    if (world.random.chance(0.25)) disks?.clear()
    this.alive = true
    this.stoppedUntil = 0
    this.share = new Set()
    this.received = new Map()
    this.life = {}
    this.#snapshots = []
    this.#read = new Map()
    const file = (name: string): MemoryFile => {
      const disk = disks!.get(name) ?? new Disk()
      disks!.set(name, disk)
      return new MemoryFile(name, disk)
    }
    const kept = (name: string): Snapshot => {
      const logLine = (line: string): void => world.broken(line)
      const snapshot = new Snapshot(
        { folder: '', records: Infinity, ms: Infinity, cacheWeight: ROOM, rowTurns: ROW_TURNS, logLine, file },
        name,
        { number: 1, migrations: {} },
      )
      this.#snapshots.push(snapshot)
      return snapshot
    }
    this.#state = this.fresh(disks ? kept : null)
    this.positions = await this.open()
    if (world.off === 'vector' && this.positions.size > 0) this.positions = new Map(this.committed)
    this.#until = world.log.ends(this.whole)
    this.restored()
  }

  /** The position at which reading continues. */
  async open(): Promise<Map<string, number>> {
    const positions = new Map<string, number>()
    for (const snapshot of this.#snapshots) {
      const offsets = await snapshot.open(this.world.log.asLog)
      for (const [topic, partitions] of Object.entries(offsets))
        for (const [partition, next] of Object.entries(partitions)) positions.set(`${topic}/${partition}`, next)
    }
    return positions
  }

  get snapshots(): readonly Snapshot[] {
    return this.#snapshots
  }
}

/** The event as a newer build writes it. */
const newerOf = (event: Event, stops: boolean): Newer => {
  const { schema, payload } = encodeEvent(event)
  if (stops) return { stops, as: { schema: schema.replace('.v', 'Anew.v'), payload } }
  const made = additions.get(event.type) ?? newer(event.type, 'mood', 'string', '')
  additions.set(event.type, made)
  const record = made.encode({ ...event, mood: 'good' })
  return { stops, as: { schema: made.schema, payload: record.payload, avro: made.schemas[made.schema]! } }
}
const additions = new Map<string, ReturnType<typeof newer>>()
