/** Runs long work in short slices, so that the event loop can handle requests between them. */
import { setImmediate } from 'node:timers/promises'

/** Milliseconds of a slice. A request takes about three turns of the event loop and waits for a slice in each. */
const SLICE_MS = 1

let sliceStart = 0

/** Calls `work` with each item and yields to the event loop after each slice. */
export const inSlices = async <T>(items: Iterable<T>, work: (item: T) => void): Promise<void> => {
  for (const item of items) {
    work(item)
    if (performance.now() - sliceStart < SLICE_MS) continue
    await setImmediate()
    sliceStart = performance.now()
  }
}

export const flatten = function* <T>(all: readonly Iterable<T>[]): Iterable<T> {
  for (const each of all) yield* each
}
