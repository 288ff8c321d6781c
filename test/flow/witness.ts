/** Reads the log while the pipeline writes it, as any other process may. */
import {
  foldScores,
  foldTurns,
  foldUpdates,
  foldWeights,
  initialScores,
  initialTurns,
  initialUpdates,
  initialWeights,
  isEpisodeRecord,
  lineageDistance,
  updateLine,
  weightLine,
  type BatchState,
  type Event,
  type Logged,
  type FoldOutcome,
  type ScoresEvent,
  type TurnsEvent,
  type MemoryUpdateLine,
  type MemoryWeightLine,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import { followEvents, openEmbeddedLog, type EventLog, type Follower } from '@instar/log'
import { readOnlyQuery, runningPostgres } from '@instar/projections'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const POLICY = 'policy'
const TOPICS = ['turns', 'scores', 'updates', 'weights'] as const
const WAIT_MS = 100_000
/** The default of the trainer. */
export const BATCH = 16
/** The default of the trainer: updates between the version of a turn and the head. */
const STALENESS = 4

export class Witness {
  readonly turns = initialTurns()
  readonly scores = initialScores()
  /** Every record of the four topics, in the order of reading. */
  readonly records: Logged[] = []
  readonly ignored: { record: Logged; why: string }[] = []
  readonly log: EventLog
  private readonly updates = initialUpdates()
  private readonly weights = initialWeights()
  private readonly waiting = new Set<() => void>()
  private follower: Follower | null = null

  constructor(log: EventLog) {
    this.log = log
  }

  get line(): MemoryWeightLine {
    return weightLine(this.weights, POLICY)
  }

  get chain(): MemoryUpdateLine {
    return updateLine(this.updates, POLICY)
  }

  branch(name: string): { line: MemoryWeightLine; chain: MemoryUpdateLine } {
    return { line: weightLine(this.weights, `${POLICY}~${name}`), chain: updateLine(this.updates, `${POLICY}~${name}`) }
  }

  events<T extends Event['type']>(type: T): Extract<Event, { type: T }>[] {
    return this.records.flatMap(({ event }) => (event.type === type ? [event as Extract<Event, { type: T }>] : []))
  }

  async follow(): Promise<void> {
    this.follower = await followEvents(this.log, {
      name: 'witness',
      topics: TOPICS,
      onEvent: (logged) => this.take(logged),
    })
    await this.follower.caughtUp()
  }

  /** Resolves with the first value of `found` that is not null; called after each record. */
  async until<T>(what: string, found: () => T | null | undefined | false): Promise<T> {
    const held = Promise.withResolvers<T>()
    const look = (): void => {
      try {
        const it = found()
        if (it !== null && it !== undefined && it !== false) held.resolve(it)
      } catch (error) {
        held.reject(error as Error)
      }
    }
    const timer = setTimeout(
      () => held.reject(new Error(`not within ${WAIT_MS / 1000} s: ${what}; ${this.summary()}`)),
      WAIT_MS,
    )
    this.follower?.done.catch(held.reject)
    this.waiting.add(look)
    look()
    try {
      return await held.promise
    } finally {
      clearTimeout(timer)
      this.waiting.delete(look)
    }
  }

  /** Resolves when everything on the log at the time of the call has been read. */
  async caughtUp(): Promise<void> {
    await this.follower?.caughtUp()
  }

  /** All joined turns are scored; no batch is open, and none can be sealed. */
  settled(size = BATCH): boolean {
    const { line, chain } = this
    const unscored = [...this.turns.turns.values()].some(
      (turn) =>
        turn.next !== null &&
        turn.kind === 'main' &&
        turn.status === 'complete' &&
        turn.trainable &&
        !this.scores.turns.has(turn.turn),
    )
    if (!line.started || unscored || chain.batches.some((batch) => !this.isSettled(batch))) return false
    return line.frozen || this.usable().length < size
  }

  /** Resolves when all turns so far are scored and trained on. */
  async learned(): Promise<void> {
    await this.caughtUp()
    await this.until('everything to be learned from', () => this.settled())
  }

  isSettled(batch: BatchState): boolean {
    return batch.status === 'failed' || (batch.update !== null && this.line.verdicts.has(batch.update.id))
  }

  /** Scored turns that the next batch may take. */
  usable(): string[] {
    const { line, chain } = this
    return [...this.scores.turns.values()].flatMap(({ turn, reward }) => {
      const known = this.turns.turns.get(turn)
      const distance = known ? lineageDistance(line, known.version, line.head) : null
      return reward !== null && known?.trainable && !chain.spent.has(turn) && distance !== null && distance <= STALENESS
        ? [turn]
        : []
    })
  }

  /** Resolves when PostgreSQL has everything that is on the log now. */
  async projected(data: string): Promise<void> {
    const ends = await this.log.ends(TOPICS)
    const running = await runningPostgres(join(data, 'postgres'))
    if (!running) throw new Error(`no PostgreSQL runs for ${data}`)
    for (const until = Date.now() + WAIT_MS; ; await pause(25)) {
      const rows = (await readOnlyQuery(running.reader, 'select topic, partition, next_offset from offsets')) as {
        topic: (typeof TOPICS)[number]
        partition: number
        next_offset: number
      }[]
      if (
        rows.length > 0 &&
        rows.every(({ topic, partition, next_offset }) => next_offset >= (ends[topic]?.[partition] ?? 0))
      )
        return
      if (Date.now() > until)
        throw new Error(`PostgreSQL is behind: ${JSON.stringify(rows)}, the log ends at ${JSON.stringify(ends)}`)
    }
  }

  async stop(): Promise<void> {
    await this.log.close()
  }

  summary(): string {
    const { line, chain } = this
    return `${this.turns.turns.size} turns, ${this.scores.turns.size} scores, batches [${chain.batches.map(({ status }) => status).join(' ')}], head ${line.head} of ${line.versions.size}${line.frozen ? ', frozen' : ''}, rejected [${line.rejected.map(({ event }) => event.reason).join(' ')}]`
  }

  private take(logged: Logged): void {
    this.records.push(logged)
    const outcome = this.fold(logged)
    if (outcome && !outcome.counted) this.ignored.push({ record: logged, why: outcome.why })
    for (const look of this.waiting) look()
  }

  private fold(logged: Logged): FoldOutcome | null {
    switch (logged.topic) {
      case 'turns':
        return foldTurns(this.turns, logged as Logged<TurnsEvent>)
      case 'scores':
        return logged.key === POLICY && !isEpisodeRecord(logged.event)
          ? foldScores(this.scores, logged as Logged<ScoresEvent>)
          : null
      case 'updates':
        return foldUpdates(this.updates, logged as Logged<UpdatesEvent>)
      case 'weights':
        return foldWeights(this.weights, logged as Logged<WeightsEvent>)
      case 'blobs':
      case 'upgrades':
        return null
    }
  }
}

export const witness = async (data: string): Promise<Witness> => {
  const seen = new Witness(await openEmbeddedLog({ folder: join(data, 'log'), readOnly: true }))
  await seen.follow()
  return seen
}
