/** Long work beside people who wait: the event loop is let go again and again. */
import { setImmediate } from 'node:timers/promises'

/** How long it is held at a time, ms. */
const SLICE_MS = 5

let since = 0

export const inSlices = async <T>(items: Iterable<T>, work: (item: T) => void): Promise<void> => {
  for (const item of items) {
    work(item)
    if (performance.now() - since < SLICE_MS) continue
    await setImmediate()
    since = performance.now()
  }
}
