/** Request bodies are buffers outside V8's heap. */
import { getHeapStatistics, setFlagsFromString } from 'node:v8'

/** Later versions of V8 count so by default, and lack the flag. */
const FLAG = process.versions.v8.startsWith('13.') ? 'external-memory-accounted-in-global-limit' : null

const setCounting = (withHeap: boolean): void => {
  if (FLAG !== null) setFlagsFromString(withHeap ? `--${FLAG}` : `--no-${FLAG}`)
}

/** Bytes of buffers, besides those of running requests, from which V8 collects them early. */
export const MOST_UNCOLLECTED = 256 * 1024 * 1024
/** The memory is looked at each time that so many bytes of bodies have come or gone. */
const LOOK_BYTES = 8 * 1024 * 1024

/**
 * Chooses when V8 collects buffers. By default it marks its whole heap after every 64 MiB of new ones, which at 200 KB
 * per request is six times a second. Counted with the heap, buffers are collected when both together have grown, which
 * with large bodies leaves more than 1 GiB of garbage. So they are counted with the heap while there is little garbage.
 */
export class BufferCollection {
  private readonly external: () => number
  private readonly count: (withHeap: boolean) => void
  private withHeap = true
  private moved = 0

  /** `external`: bytes outside V8's heap, of buffers and of texts, garbage included. */
  constructor(external = () => getHeapStatistics().external_memory, count = setCounting) {
    this.external = external
    this.count = count
    count(true)
  }

  /** Call when `bytes` of bodies came or went; `held`: bytes of those of running requests. */
  move(bytes: number, held: number): void {
    this.moved += bytes
    if (this.moved < LOOK_BYTES) return
    this.moved = 0
    const withHeap = this.external() <= held + MOST_UNCOLLECTED
    if (withHeap === this.withHeap) return
    this.withHeap = withHeap
    this.count(withHeap)
  }
}
