/**
 * Shared memory of the appending and the writing thread: eight Int32 words, then a Float64 per topic. The writer waits
 * on a word (`Atomics.wait`), since waking it takes less time than a message, and it starts a transaction while records
 * are still being added. Rare events (group commits, a larger frame, closing) are messages on the port; a word counts
 * them.
 */
import { TOPICS } from '@instar/events/flow'

/** Incremented after every change of another word; the writer waits on it. */
const WAKEUPS = 0
/** The number of transactions opened so far. */
const OPENED = 1
/** Of the open transaction: the index of its frame, the readable bytes of the frame, and 1 once no more will follow. */
const FRAME = 2
const PUBLISHED = 3
const SEALED = 4
/** The number of messages posted so far. */
const MESSAGES = 5
/** 1 while the writer blocks. */
const SLEEPING = 6
const WORDS = 8
/** Polls between two reads of the clock. */
const POLLS = 50

export type ControlMemory = SharedArrayBuffer

const wordsOf = (memory: ControlMemory): Int32Array => new Int32Array(memory, 0, WORDS)

/** The offset of the transaction's first record per topic, valid once the writer has answered. */
export const firstOffsets = (memory: ControlMemory): Float64Array => new Float64Array(memory, WORDS * 4, TOPICS.length)

export const controlMemory = (): ControlMemory => new SharedArrayBuffer(WORDS * 4 + TOPICS.length * 8)

/** The appending thread's side. */
export class AppenderControl {
  readonly #words: Int32Array

  constructor(memory: ControlMemory) {
    this.#words = wordsOf(memory)
  }

  /** Opens a transaction and returns its number. The writer must have answered the previous one. */
  open(frame: number): number {
    Atomics.store(this.#words, FRAME, frame)
    Atomics.store(this.#words, PUBLISHED, 0)
    Atomics.store(this.#words, SEALED, 0)
    const before = Atomics.add(this.#words, OPENED, 1)
    this.#wake()
    return before + 1
  }

  /** Lets the writer read the first `bytes` bytes of the frame. */
  publish(bytes: number): void {
    Atomics.store(this.#words, PUBLISHED, bytes)
    this.#wake()
  }

  /** Lets the writer commit: nothing more will be published. */
  seal(): void {
    Atomics.store(this.#words, SEALED, 1)
    this.#wake()
  }

  /** Call it after posting a message on the port. */
  messagePosted(): void {
    Atomics.add(this.#words, MESSAGES, 1)
    this.#wake()
  }

  #wake(): void {
    Atomics.add(this.#words, WAKEUPS, 1)
    if (Atomics.load(this.#words, SLEEPING) === 1) Atomics.notify(this.#words, WAKEUPS)
  }
}

/** The writing thread's side. */
export class WriterControl {
  readonly #words: Int32Array
  #messages = 0
  /** The number of the last transaction that `takeOpened` returned. */
  transaction = 0

  constructor(memory: ControlMemory) {
    this.#words = wordsOf(memory)
  }

  /** The number of wake-ups. Read it before checking the condition that `sleep` waits for. */
  get wakeups(): number {
    return Atomics.load(this.#words, WAKEUPS)
  }

  /**
   * Returns when the number of wake-ups differs from `wakeups`. Polls for `pollMs` milliseconds before it blocks, since
   * waking a blocked thread takes longer.
   */
  sleep(wakeups: number, pollMs: number): void {
    if (pollMs > 0) {
      const until = performance.now() + pollMs
      do {
        for (let i = 0; i < POLLS; i++) if (this.wakeups !== wakeups) return
      } while (performance.now() < until)
    }
    Atomics.store(this.#words, SLEEPING, 1)
    Atomics.wait(this.#words, WAKEUPS, wakeups)
    Atomics.store(this.#words, SLEEPING, 0)
  }

  /** The frame index of a transaction that was opened since the last call; undefined if there is none. */
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

  /** Returns true once per message posted. */
  takeMessage(): boolean {
    if (Atomics.load(this.#words, MESSAGES) === this.#messages) return false
    this.#messages++
    return true
  }
}
