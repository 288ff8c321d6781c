export type Limit = <T>(work: () => Promise<T>) => Promise<T>

/** Runs at most `most` works at a time, in the order of the calls. */
export const createLimit = (most: number): Limit => {
  let running = 0
  const waiting: (() => void)[] = []
  return async (work) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve))
    else running += 1
    try {
      return await work()
    } finally {
      // The place goes to the next one.
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }
}
