/**
 * The shared words of the appending and the writing thread. The writer waits on one of them: waking it costs less
 * than a message, and it begins a transaction while its records are still being put. Rare events (commits, memory
 * that grew, the end) are messages on the port, counted by a word.
 */
import { TOPICS } from '@instar/events/flow'

/** Raised with every other word. */
const CALLED = 0
/** How many transactions were opened. */
const OPENED = 1
/** The number of the frame of the one that is open, how many of its bytes may be read, and whether that is all. */
const FRAME = 2
const PUBLISHED = 3
const SEALED = 4
/** Count of messages posted. */
const LETTERS = 5
const ASLEEP = 6
const WORDS = 8
/** Polls between two reads of the clock. */
const LOOKS = 50

export type ControlMemory = SharedArrayBuffer

const wordsOf = (memory: ControlMemory): Int32Array => new Int32Array(memory, 0, WORDS)

/** For each topic the offset of the transaction's first record; the writer's until it has answered. */
export const firstOffsets = (memory: ControlMemory): Float64Array => new Float64Array(memory, WORDS * 4, TOPICS.length)

export const controlMemory = (): ControlMemory => new SharedArrayBuffer(WORDS * 4 + TOPICS.length * 8)

/** The appending thread's side. */
export class AppenderControl {
  readonly #words: Int32Array

  constructor(memory: ControlMemory) {
    this.#words = wordsOf(memory)
  }

  /** Begins a transaction; the last one has been answered. Its number. */
  open(frame: number): number {
    Atomics.store(this.#words, FRAME, frame)
    Atomics.store(this.#words, PUBLISHED, 0)
    Atomics.store(this.#words, SEALED, 0)
    const before = Atomics.add(this.#words, OPENED, 1)
    this.#call()
    return before + 1
  }

  /** So many bytes of the frame, from its first on, are the writer's to read. */
  publish(bytes: number): void {
    Atomics.store(this.#words, PUBLISHED, bytes)
    this.#call()
  }

  /** What has been published is all: it may be committed. */
  seal(): void {
    Atomics.store(this.#words, SEALED, 1)
    this.#call()
  }

  /** A message was posted on the port. */
  letter(): void {
    Atomics.add(this.#words, LETTERS, 1)
    this.#call()
  }

  #call(): void {
    Atomics.add(this.#words, CALLED, 1)
    if (Atomics.load(this.#words, ASLEEP) === 1) Atomics.notify(this.#words, CALLED)
  }
}

/** The writing thread's side. */
export class WriterControl {
  readonly #words: Int32Array
  #letters = 0
  /** The number of the transaction that was taken last. */
  transaction = 0

  constructor(memory: ControlMemory) {
    this.#words = wordsOf(memory)
  }

  /** Read it before checking the condition that `sleep` waits for. */
  get times(): number {
    return Atomics.load(this.#words, CALLED)
  }

  /**
   * Blocks until the word has changed more than `times`. Polls for `lookMs` before it blocks, because a wake-up takes
   * longer than that.
   */
  sleep(times: number, lookMs: number): void {
    if (lookMs > 0) {
      const until = performance.now() + lookMs
      do {
        for (let i = 0; i < LOOKS; i++) if (this.times !== times) return
      } while (performance.now() < until)
    }
    Atomics.store(this.#words, ASLEEP, 1)
    Atomics.wait(this.#words, CALLED, times)
    Atomics.store(this.#words, ASLEEP, 0)
  }

  /** The frame of a transaction that was opened since the last was taken. */
  takeOpened(): number | undefined {
    const opened = Atomics.load(this.#words, OPENED)
    if (opened === this.transaction) return undefined
    this.transaction = opened
    return Atomics.load(this.#words, FRAME)
  }

  get published(): number {
    return Atomics.load(this.#words, PUBLISHED)
  }

  get sealed(): boolean {
    return Atomics.load(this.#words, SEALED) === 1
  }

  /** True once per message posted. */
  takeLetter(): boolean {
    if (Atomics.load(this.#words, LETTERS) === this.#letters) return false
    this.#letters++
    return true
  }
}
