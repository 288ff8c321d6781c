/** The append and commit calls that share a transaction. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import type { Position } from '../port.ts'
import { Frame } from './frame.ts'
import type { WrittenCall } from './recent-records.ts'
import type { GroupCommit } from './messages.ts'

type Settle<T> = { resolve(value: T): void; reject(cause: unknown): void }

export class Batch {
  /** The index of its frame, 0 or 1. */
  readonly frameIndex: number
  readonly frame = new Frame()
  /** The frame's memory as the writing thread last received it. */
  sharedWithWriter: SharedArrayBuffer | undefined
  transaction = 0
  /** Payload bytes. */
  bytes = 0
  /** Offsets are relative to the transaction's first offset of their topic. */
  calls: (Settle<Position[]> & WrittenCall & { positions: Position[] })[] = []
  commits: (Settle<void> & GroupCommit)[] = []

  constructor(frameIndex: number) {
    this.frameIndex = frameIndex
  }

  get empty(): boolean {
    return this.calls.length === 0 && this.commits.length === 0
  }

  /**
   * Empties the batch. The returned function resolves or rejects its calls and returns the calls that were written.
   * `outcome`: the transaction's first offset of each topic (in the order of TOPICS), or the error.
   */
  take(outcome: Float64Array | InstarError): () => readonly WrittenCall[] {
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
