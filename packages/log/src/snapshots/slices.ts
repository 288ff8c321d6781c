/** Long work on an event loop that also answers requests: it runs in short slices. */
import { setImmediate } from 'node:timers/promises'

/**
 * Time slice of snapshot work on the event loop, ms. A request takes about three turns of the loop, and waits for a
 * slice in each.
 */
const SLICE_MS = 1

let since = 0

export const inSlices = async <T>(items: Iterable<T>, work: (item: T) => void): Promise<void> => {
  for (const item of items) {
    work(item)
    if (performance.now() - since < SLICE_MS) continue
    await setImmediate()
    since = performance.now()
  }
}
