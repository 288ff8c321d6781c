/** The calls that share a transaction. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import type { Position } from '../port.ts'
import { Frame } from './frame.ts'
import type { Written } from './latest.ts'
import type { GroupCommit } from './messages.ts'

type Settle<T> = { resolve(value: T): void; reject(cause: unknown): void }

export class Batch {
  /** 0 or 1: the number of its frame. */
  readonly number: number
  readonly frame = new Frame()
  /** The memory that the writer maps for this frame. */
  known: SharedArrayBuffer | undefined
  transaction = 0
  /** Payload bytes. */
  bytes = 0
  /** The offsets count from the transaction's first of their topic. */
  calls: (Settle<Position[]> & Written & { positions: Position[] })[] = []
  commits: (Settle<void> & GroupCommit)[] = []

  constructor(number: number) {
    this.number = number
  }

  get empty(): boolean {
    return this.calls.length === 0 && this.commits.length === 0
  }

  /**
   * Empties the batch. The returned function resolves or rejects its calls and returns what was written. `outcome`:
   * each topic's first offset, or the error.
   */
  take(outcome: Float64Array | InstarError): () => readonly Written[] {
    const { calls, commits } = this
    this.frame.clear()
    this.bytes = 0
    this.calls = []
    this.commits = []
    if (outcome instanceof InstarError)
      return () => {
        for (const { reject } of [...calls, ...commits]) reject(outcome)
        return []
      }
    const first = Object.fromEntries(TOPICS.map((topic, i) => [topic, outcome[i]!]))
    return () => {
      for (const { positions, resolve } of calls) {
        for (const position of positions) position.offset += first[position.topic]!
        resolve(positions)
      }
      for (const { resolve } of commits) resolve()
      return calls
    }
  }
}
