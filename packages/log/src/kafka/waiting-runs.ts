/**
 * What a producer cannot send now, kept by partition in the order of its appends: because the partition has no
 * leader, or because a read has not yet taken its end there. The other partitions do not wait for it.
 */
import type { TopicPartition } from './fetch.ts'
import type { Run } from './runs.ts'
import { sleep } from '../backoff.ts'

/** How often it is asked whether a partition has a leader again. */
const AGAIN_MS = 500

/** `held`: a read that was begun before it was appended has not taken its end. */
type WaitingRun = { run: Run; held: boolean }
/** `returned`: how many runs at its head were put back since one was taken. */
type PartitionQueue = { waiting: WaitingRun[]; returned: number; leaderless: boolean }

const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`

export class WaitingRuns {
  readonly #lines = new Map<string, PartitionQueue>()
  /** Reads in progress that must not see what is appended after them, by partition. */
  readonly #fences = new Map<string, Set<Promise<unknown>>>()
  /** Partitions reported to have no leader. */
  readonly #told = new Set<string>()
  #askAt = 0
  #woken = Promise.withResolvers<void>()

  get empty(): boolean {
    return this.#lines.size === 0
  }

  /** Something happened that `due` may wait for. */
  wake(): void {
    this.#woken.resolve()
  }

  /** What is appended to these partitions from now on waits until `reading` has settled. */
  fence(places: readonly TopicPartition[], reading: Promise<unknown>): void {
    for (const name of places.map(nameOf)) {
      const fences = this.#fences.get(name) ?? new Set()
      this.#fences.set(name, fences.add(reading))
      const lift = (): void => {
        fences.delete(reading)
        if (fences.size === 0 && this.#fences.get(name) === fences) this.#fences.delete(name)
      }
      reading.then(lift, lift)
    }
  }

  /** True, and the run waits, where its partition is fenced now or others of it wait. */
  behind(run: Run): boolean {
    const name = nameOf(run)
    const fences = this.#fences.get(name)
    if (!fences && !this.#lines.has(name)) return false
    const waiting: WaitingRun = { run, held: fences !== undefined }
    this.#line(name).waiting.push(waiting)
    if (fences) {
      void Promise.allSettled(fences).then(() => {
        waiting.held = false
        this.wake()
      })
    }
    return true
  }

  /** True, and the run waits, where what stood before it came back: it is the rest of the same batch. */
  follows(run: Run): boolean {
    const line = this.#lines.get(nameOf(run))
    if (!line || line.returned === 0) return false
    line.waiting.splice(line.returned++, 0, { run, held: false })
    return true
  }

  /**
   * Puts back runs whose partition has no leader, ahead of the runs that wait. Returns true for a partition not
   * reported yet.
   */
  away(runs: readonly Run[]): boolean {
    const fresh = runs.some((run) => !this.#told.has(nameOf(run)))
    for (const run of runs) {
      const line = this.#line(nameOf(run))
      line.waiting.splice(line.returned++, 0, { run, held: false })
      line.leaderless = true
      this.#told.add(nameOf(run))
    }
    this.#askAt = performance.now() + AGAIN_MS
    return fresh
  }

  /** A partition answers: the next time that it has no leader is worth telling again. */
  reached(place: TopicPartition): void {
    if (this.#told.size > 0) this.#told.delete(nameOf(place))
  }

  /**
   * Resolves when something may be sent, at once where nothing waits, or when woken. A timer may fire a little early.
   */
  async due(): Promise<void> {
    this.#woken = Promise.withResolvers()
    let woken = false
    while (!woken && !this.empty && this.#ready().length === 0) {
      const asked = new AbortController()
      const leaderless = [...this.#lines.values()].some((line) => line.leaderless)
      const again = leaderless
        ? sleep(Math.max(1, Math.ceil(this.#askAt - performance.now())), asked.signal)
        : new Promise<never>(() => undefined)
      woken = await Promise.race([this.#woken.promise.then(() => true), again.then(() => false)])
      asked.abort()
    }
  }

  /** Takes out the first run of each partition that may be tried again. */
  takeDue(): Run[] {
    return this.#ready().map(([name, line]) => {
      const { run } = line.waiting.shift()!
      line.returned = 0
      line.leaderless = false
      if (line.waiting.length === 0) this.#lines.delete(name)
      return run
    })
  }

  /** Takes out everything. */
  all(): Run[] {
    const runs = [...this.#lines.values()].flatMap(({ waiting }) => waiting.map(({ run }) => run))
    this.#lines.clear()
    return runs
  }

  #line(name: string): PartitionQueue {
    const line = this.#lines.get(name) ?? { waiting: [], returned: 0, leaderless: false }
    this.#lines.set(name, line)
    return line
  }

  #ready(): [string, PartitionQueue][] {
    return [...this.#lines].filter(
      ([, { waiting, leaderless }]) => !waiting[0]!.held && (!leaderless || performance.now() >= this.#askAt),
    )
  }
}
