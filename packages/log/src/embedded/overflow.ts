/** The calls that wait for room in a batch, in order. */
import type { Batch } from './batch.ts'

/** `bytes`: of the payloads; `framed`: an upper bound of the bytes in a frame, 0 for a commit. */
export type WaitingCall = {
  records: number
  bytes: number
  framed: number
  /** Adds the call to a batch that has room for it. */
  addTo(batch: Batch): void
  reject(cause: unknown): void
}

export class Overflow {
  readonly #calls: WaitingCall[] = []
  records = 0
  bytes = 0
  commits = 0

  get first(): WaitingCall | undefined {
    return this.#calls[0]
  }

  add(call: WaitingCall): void {
    this.#calls.push(call)
    this.records += call.records
    this.bytes += call.bytes
    this.commits += call.records === 0 ? 1 : 0
  }

  shift(): WaitingCall | undefined {
    const call = this.#calls.shift()
    if (!call) return undefined
    this.records -= call.records
    this.bytes -= call.bytes
    this.commits -= call.records === 0 ? 1 : 0
    return call
  }
}
