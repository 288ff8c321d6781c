/**
 * What a producer cannot send now, kept by partition in the order of its appends: because the partition has no leader, or
 * because a read has not yet taken its end there. The other partitions do not wait for it.
 */
import type { Place } from './fetch.ts'
import type { Run } from './runs.ts'
import { rest } from './wait.ts'

/** How often it is asked whether a partition has a leader again. */
const AGAIN_MS = 500

type Line = { runs: Run[]; leaderless: boolean }

const nameOf = ({ topic, partition }: Place): string => `${topic}/${partition}`

export class WaitingRuns {
  readonly #lines = new Map<string, Line>()
  /** Reads in progress that must not see what is appended after them, by partition. */
  readonly #fences = new Map<string, Set<Promise<unknown>>>()
  /** Of partitions that it was said of that they have no leader. */
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

  fence(places: readonly Place[], reading: Promise<unknown>): void {
    for (const name of places.map(nameOf)) {
      const fences = this.#fences.get(name) ?? new Set()
      this.#fences.set(name, fences.add(reading))
      const lift = (): void => {
        fences.delete(reading)
        if (fences.size === 0 && this.#fences.get(name) === fences) this.#fences.delete(name)
        this.wake()
      }
      reading.then(lift, lift)
    }
  }

  /** True, and the run waits, where its partition is fenced or others of it wait. */
  behind(run: Run): boolean {
    const name = nameOf(run)
    const line = this.#lines.get(name)
    if (line) line.runs.push(run)
    else if (this.#fences.has(name)) this.#lines.set(name, { runs: [run], leaderless: false })
    else return false
    return true
  }

  /** Runs that were to be sent and found no leader: before all that waits behind them. True where a partition is a new one. */
  away(runs: readonly Run[]): boolean {
    let fresh = false
    for (const run of runs) {
      const line = this.#lines.get(nameOf(run))
      if (line) line.runs.unshift(run)
      else this.#lines.set(nameOf(run), { runs: [run], leaderless: true })
      fresh ||= !this.#told.has(nameOf(run))
      this.#told.add(nameOf(run))
    }
    this.#askAt = performance.now() + AGAIN_MS
    return fresh
  }

  /** Resolves when something may be sent, at once where nothing waits, or when woken. */
  async due(): Promise<void> {
    if (this.empty || this.#ready().length > 0) return
    this.#woken = Promise.withResolvers()
    const asked = new AbortController()
    const leaderless = [...this.#lines.values()].some((line) => line.leaderless)
    const again = leaderless ? rest(Math.max(0, this.#askAt - performance.now()), asked.signal) : new Promise<never>(() => undefined)
    await Promise.race([this.#woken.promise, again])
    asked.abort()
  }

  /** A partition answers: the next time that it has no leader is worth telling again. */
  reached(place: Place): void {
    if (this.#told.size > 0) this.#told.delete(nameOf(place))
  }

  /** Takes out what may be tried again: the runs of each partition, in order. */
  takeDue(): Line[] {
    return this.#ready().map((name) => {
      const line = this.#lines.get(name)!
      this.#lines.delete(name)
      return line
    })
  }

  /** Takes out everything. */
  all(): Run[] {
    const runs = [...this.#lines.values()].flatMap((line) => line.runs)
    this.#lines.clear()
    return runs
  }

  #ready(): string[] {
    return [...this.#lines].filter(([name, { leaderless }]) => !this.#fences.has(name) && (!leaderless || performance.now() >= this.#askAt)).map(([name]) => name)
  }
}
