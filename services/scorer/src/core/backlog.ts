/**
 * Requests that wait for a judge. The newest turn goes first: learning wants what the serving version said, and where
 * a judge is slower than people it never comes to the oldest, which would be stale by then. Those that are held are not
 * put before it until `release`. Beyond `most` of both the oldest is shed, one that is held before others. Requests of
 * candidates of one answer are shed together.
 */
import type { JudgeRequest } from './decide.ts'

type BacklogEntry = { at: number; request: JudgeRequest }
/** `why`: the reason of its skip. */
export type Shed = { request: JudgeRequest; why: 'overloaded' | 'surplus' }

export class Backlog {
  /** A lower limit holds from the next request on. */
  most: number
  /** Oldest first. */
  #entries: BacklogEntry[] = []
  readonly #held: BacklogEntry[] = []

  constructor(most: number) {
    this.most = most
  }

  /** Of both. */
  get size(): number {
    return this.#entries.length + this.#held.length
  }

  get held(): readonly JudgeRequest[] {
    return this.#held.map(({ request }) => request)
  }

  get heldCount(): number {
    return this.#held.length
  }

  /** `at`: when the turn, of candidates the one that was shown, was said. Returns the requests that have no room. */
  push(request: JudgeRequest, at: number): Shed[] {
    insert(this.#entries, { at, request })
    if (this.size <= this.most) return []
    const [from, why] =
      this.#held.length > 0 ? [this.#held, 'surplus' as const] : [this.#entries, 'overloaded' as const]
    return shift(from).map((one) => ({ request: one, why }))
  }

  /** Removes one that is not held; undefined: there is none. */
  newest(): BacklogEntry | undefined {
    return this.#entries.pop()
  }

  hold(entry: BacklogEntry): void {
    insert(this.#held, entry)
  }

  release(): void {
    if (this.#held.length === 0) return
    this.#entries = [...this.#held.splice(0), ...this.#entries].sort((a, b) => a.at - b.at)
  }
}

const insert = (entries: BacklogEntry[], entry: BacklogEntry): void => {
  let [low, high] = [0, entries.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (entries[middle]!.at <= entry.at) low = middle + 1
    else high = middle
  }
  entries.splice(low, 0, entry)
}

/** Removes the oldest and the others of its answer, which have the same time. */
const shift = (entries: BacklogEntry[]): JudgeRequest[] => {
  const [oldest] = entries
  if (!oldest) return []
  let same = 1
  while (entries[same]?.at === oldest.at) same += 1
  const shed = entries.splice(0, same)
  const of = answerOf(oldest.request)
  const others = shed.filter(({ request }) => answerOf(request) !== of)
  entries.unshift(...others)
  return shed.flatMap(({ request }) => (answerOf(request) === of ? [request] : []))
}

const answerOf = ({ shown, turn }: JudgeRequest): string => shown ?? turn
