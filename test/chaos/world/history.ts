/**
 * The state that follows from the records of the log, computed independently of the services' folds: which records
 * count, the result of each turn, the chains of batches and versions. Follows the log while others write it.
 */
import {
  decodeReadable,
  InstarError,
  isEpisodeRecord,
  type BatchSealed,
  type Event,
  type LineStarted,
  type Logged,
  type ScoresEvent,
  type TurnAborted,
  type TurnCaptured,
  type UpdateComputed,
  type UpdateFailed,
  type UpdatesEvent,
  type VersionPublished,
  type VersionRejected,
  type WeightsEvent,
} from '@instar/events'
import type { EventLog, LogRecord, Subscription } from '@instar/log'

export type Turn = TurnCaptured | TurnAborted
export type Fact<E> = { id: string; event: E }
export type Batch = Fact<BatchSealed> & {
  outcome: Fact<UpdateComputed | UpdateFailed> | null
  verdict: Fact<VersionPublished | VersionRejected> | null
}
export type Version = { number: number; parent: number | null; fact: Fact<VersionPublished> | null }

const POLICY = 'policy'
const TOPICS = ['turns', 'scores', 'updates', 'weights'] as const
/** Defaults of the trainer. */
const BATCH = 16
const STALENESS = 4

/** A record counts if its `prev` is the last record of the chain. */
type Chain = { tip: string; ignored: number }

export class History {
  readonly turns = new Map<string, Fact<Turn>>()
  /** The scores of each turn that count, in order. */
  readonly scores = new Map<string, Fact<ScoresEvent>[]>()
  readonly batches: Batch[] = []
  readonly versions: Version[] = []
  line: Fact<LineStarted> | null = null
  head = 0
  /** The number of times that each turn is in a batch, used or dropped. */
  readonly spent = new Map<string, number>()
  readonly closedTurns = new Set<string>()
  /** Feedback by turn. */
  readonly feedback = new Map<string, number>()
  /** Repeated records, equal byte for byte, by type; readers drop them. */
  readonly repeats: Record<string, number> = {}
  /**
   * Second records about the same object: a further score of a turn, or a record of a chain with an outdated `prev`.
   */
  readonly late = { scores: 0, updates: 0, weights: 0 }
  /** Two different captures with one turn id; must stay empty. */
  readonly conflicts: string[] = []
  readonly #seen = new Set<string>()
  readonly #updates: Chain = { tip: '', ignored: 0 }
  readonly #weights: Chain = { tip: '', ignored: 0 }
  readonly #waiting = new Set<() => void>()
  #subscription: Subscription | null = null
  #failed: Error | null = null

  async follow(log: EventLog): Promise<void> {
    this.#subscription = await log.subscribe({
      topics: TOPICS,
      group: 'test',
      from: 'start',
      handle: (records) => {
        for (const record of records) {
          const logged = known(record)
          if (logged) this.#take(logged)
        }
        for (const look of this.#waiting) look()
      },
    })
    this.#subscription.done.catch((error: unknown) => {
      this.#failed = error as Error
      for (const look of this.#waiting) look()
    })
    await this.#subscription.caughtUp()
  }

  async caughtUp(): Promise<void> {
    await this.#subscription?.caughtUp()
  }

  /** Resolves when `found` is true; it is called after each read. */
  async until(what: string, found: () => boolean, ms = 240_000): Promise<void> {
    const held = Promise.withResolvers<void>()
    const look = (): void => {
      if (this.#failed) held.reject(this.#failed)
      else if (found()) held.resolve()
    }
    const timer = setTimeout(() => held.reject(new Error(`not within ${ms / 1000} s: ${what}; ${this.summary()}`)), ms)
    this.#waiting.add(look)
    look()
    try {
      await held.promise
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(look)
    }
  }

  /** Turns that a scorer must score or skip. */
  scorable(): string[] {
    return [...this.turns.values()].flatMap(({ event }) =>
      event.type === 'TurnCaptured' && event.kind === 'main' && event.trainable ? [event.turn] : [],
    )
  }

  /** All joined turns are scored or skipped, every batch has a verdict, and no further batch can be sealed. */
  settled(): boolean {
    if (!this.line || this.scorable().some((turn) => !this.scores.has(turn))) return false
    if (this.batches.some(({ outcome, verdict }) => !outcome || (outcome.event.type === 'UpdateComputed' && !verdict)))
      return false
    const fresh = [...this.scores].filter(([turn, facts]) => {
      const turned = this.turns.get(turn)?.event
      const reward = facts.at(-1)!.event
      return (
        reward.type !== 'TurnSkipped' &&
        turned?.trainable &&
        !this.spent.has(turn) &&
        this.distance(turned.version) <= STALENESS
      )
    })
    return fresh.length < BATCH
  }

  /** Number of updates between a version and the head, along parents; Infinity if it is no ancestor. */
  distance(version: number): number {
    let steps = 0
    for (let at: number | null = this.head; at !== null; at = this.versions[at]?.parent ?? null, steps += 1)
      if (at === version) return steps
    return Infinity
  }

  async untilSettled(ms?: number): Promise<void> {
    await this.caughtUp()
    await this.until('everything to be settled', () => this.settled(), ms)
  }

  summary(): string {
    const open = this.scorable().filter((turn) => !this.scores.has(turn)).length
    return `${this.turns.size} turns (${open} unscored), batches [${this.batches.map(({ outcome, verdict }) => (verdict ? (verdict.event.type === 'VersionPublished' ? verdict.event.number : verdict.event.reason) : outcome ? (outcome.event.type === 'UpdateFailed' ? outcome.event.reason : 'computed') : 'sealed')).join(' ')}], head ${this.head}, ${JSON.stringify({ repeats: this.repeats, late: this.late })}`
  }

  #take(logged: Logged): void {
    if (this.#seen.has(logged.id)) {
      this.repeats[logged.event.type] = (this.repeats[logged.event.type] ?? 0) + 1
      return
    }
    this.#seen.add(logged.id)
    if (logged.topic === 'turns') this.#turn(logged)
    else if (isEpisodeRecord(logged.event)) return
    else if (logged.key === POLICY && logged.topic === 'scores') this.#score(logged as Logged<ScoresEvent>)
    else if (logged.key === POLICY && logged.topic === 'updates') this.#update(logged as Logged<UpdatesEvent>)
    else if (logged.key === POLICY && logged.topic === 'weights') this.#weight(logged as Logged<WeightsEvent>)
  }

  #turn({ id, event }: Logged<Event>): void {
    if (event.type === 'TurnCaptured' || event.type === 'TurnAborted') {
      if (this.turns.has(event.turn)) this.conflicts.push(event.turn)
      else this.turns.set(event.turn, { id, event })
    } else if (event.type === 'SessionClosed') for (const turn of event.open) this.closedTurns.add(turn)
    else if (event.type === 'FeedbackGiven' && event.turn) this.feedback.set(event.turn, event.value)
  }

  #score({ id, event }: Logged<ScoresEvent>): void {
    const there = this.scores.get(event.turn)
    if (!there) return void this.scores.set(event.turn, [{ id, event }])
    const before = there.at(-1)!.event.rank
    const outranks =
      event.rank && (!before || event.rank.at > before.at || (event.rank.at === before.at && event.rank.id > before.id))
    if (outranks) there.push({ id, event })
    else this.late.scores += 1
  }

  #counts(chain: Chain, id: string, prev: string): boolean {
    if (prev !== chain.tip) return false
    chain.tip = id
    return true
  }

  #update({ id, event }: Logged<UpdatesEvent>): void {
    if (!this.#counts(this.#updates, id, event.prev)) return void (this.late.updates += 1)
    if (event.type === 'BatchSealed') {
      this.batches.push({ id, event, outcome: null, verdict: null })
      for (const { turn } of [...event.items, ...event.dropped]) this.spent.set(turn, (this.spent.get(turn) ?? 0) + 1)
      return
    }
    if (event.type !== 'UpdateComputed' && event.type !== 'UpdateFailed') return
    const batch = this.batches.find((one) => one.id === event.batch)
    if (batch) batch.outcome = { id, event }
    this.#settle()
  }

  #weight({ id, event }: Logged<WeightsEvent>): void {
    if (!this.#counts(this.#weights, id, event.prev)) return void (this.late.weights += 1)
    if (event.type === 'LineStarted') {
      this.line = { id, event }
      this.versions.push({ number: 0, parent: null, fact: null })
    } else if (event.type === 'VersionPublished') {
      this.versions.push({ number: event.number, parent: event.parent, fact: { id, event } })
      this.head = event.number
      this.#verdicts.push({ id, event })
    } else if (event.type === 'VersionRejected') this.#verdicts.push({ id, event })
    else if (event.type === 'HeadMoved') this.head = event.to
    this.#settle()
  }

  readonly #verdicts: Fact<VersionPublished | VersionRejected>[] = []

  /** The two chains are read in any order. */
  #settle(): void {
    for (const verdict of this.#verdicts) {
      const batch = this.batches.find(({ outcome }) => outcome?.id === verdict.event.update)
      if (batch) batch.verdict = verdict
    }
  }

  verdicts(): readonly Fact<VersionPublished | VersionRejected>[] {
    return this.#verdicts
  }
}

/** Null for both kinds of unreadable records. */
const known = (record: LogRecord): Logged | null => {
  try {
    return decodeReadable(record)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'unknown_record') return null
    throw error
  }
}
