/** What all services have in common here: reading in an order of their own, sending late, pausing, dying. */
import { encodeEvent, type Event, type Logged, type Topic } from '@instar/events'
import { bend, type Folds } from './rules.ts'
import { slot, type Ends, type SimRecord } from './sim-log.ts'
import type { World } from './world.ts'

type Snapshot<S> = { state: S; positions: Map<string, number> }

export abstract class Process<S> {
  readonly name: string
  readonly world: World
  readonly topics: readonly Topic[]
  state: S
  alive = true
  /** Partitions whose work it holds for its own. They say nothing about what it may read or write. */
  share: ReadonlySet<number> = new Set()
  /** Until this step it does nothing, then it goes on with what it knew. */
  stoppedUntil = 0
  positions = new Map<string, number>()
  committed = new Map<string, number>()
  snapshot: Snapshot<S> | null = null
  /** A rule that is switched off is off for the live services. */
  readonly live: boolean = true
  /** Decided, not yet handed to the network. */
  outbox: { record: SimRecord; landed: (logged: Logged<Event>) => void }[] = []
  /** Ends of its topics when it started: it decides nothing before it has read them. */
  #until: Ends = new Map()
  /** What is under way belongs to one life. */
  life = {}

  constructor(world: World, name: string, topics: readonly Topic[]) {
    this.world = world
    this.name = name
    this.topics = topics
    this.state = this.fresh()
  }

  abstract fresh(): S
  /** What a snapshot keeps of it. */
  copy(state: S): S {
    return structuredClone(state)
  }
  abstract evolve(logged: Logged<Event>): void
  abstract folds(): Folds
  /** Decides and does one thing; false if there was nothing to do. */
  abstract act(): boolean
  /** Gone with its memory: what is not on the log. */
  abstract forget(): void
  /** What it still waits for; null when it is at rest. */
  abstract waits(): string | null

  /** The state is that of a snapshot. */
  restored(): void { return undefined }

  get running(): boolean { return this.alive && this.stoppedUntil <= this.world.step }

  readonly mine = (partition: number): boolean => this.share.has(partition)

  give(share: ReadonlySet<number>): void {
    this.share = share
    this.shared()
  }

  /** Its share is another one. */
  shared(): void { return undefined }

  fold(logged: Logged<Event>): void {
    const bent = this.live ? bend(this.world.off, this.folds(), logged) : logged
    if (bent) this.evolve(bent)
  }

  /** Some records of one partition; false if all has been read. */
  read(most: number): boolean {
    const { random, log } = this.world
    const unread = this.unread()
    if (unread.length === 0) return false
    const name = random.pick(unread)
    const records = log.partitions.get(name)!
    const from = this.positions.get(name) ?? 0
    const to = Math.min(records.length, from + 1 + random.below(most))
    for (let at = from; at < to; at += 1) this.fold(records[at]!)
    this.positions.set(name, to)
    if (random.chance(0.3)) this.committed = new Map(this.positions)
    return true
  }

  unread(): string[] {
    return this.topics.flatMap((topic) => [0, 1].map((partition) => slot(topic, partition))).filter((name) => (this.positions.get(name) ?? 0) < (this.world.log.partitions.get(name)?.length ?? 0))
  }

  hasRead(ends: Ends): boolean {
    return [...ends].every(([name, end]) => (this.positions.get(name) ?? 0) >= end)
  }

  get ready(): boolean { return this.hasRead(this.#until) }

  /** Puts an event on its way; `landed` is the acknowledgement. */
  append(event: Event, landed: (logged: Logged<Event>) => void = () => undefined): string {
    const record = encodeEvent(event)
    this.outbox.push({ record, landed })
    return record.id
  }

  send(): boolean {
    const next = this.outbox.shift()
    if (!next) return false
    const { life } = this
    this.world.log.send(next.record, life, (logged) => {
      if (!this.alive || this.life !== life) return
      if (this.world.off === 'readBack') this.fold(logged)
      next.landed(logged)
    })
    return true
  }

  takeSnapshot(): void {
    this.snapshot = { state: this.copy(this.state), positions: new Map(this.positions) }
  }

  kill(): void {
    this.alive = false
    this.world.log.lose(this.life)
    this.outbox = []
    this.forget()
  }

  start(): void {
    const from = this.snapshot !== null && this.world.random.chance(0.5) ? this.snapshot : null
    this.alive = true
    this.stoppedUntil = 0
    this.share = new Set()
    this.life = {}
    this.state = from ? this.copy(from.state) : this.fresh()
    if (from) this.restored()
    this.positions = new Map(from ? (this.world.off === 'vector' ? this.committed : from.positions) : [])
    this.#until = this.world.log.ends(this.topics)
  }
}
