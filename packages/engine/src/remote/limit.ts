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

/** The results of all works. The first failure ends the others and is thrown; so is the reason of `signal`. */
export const allWithin = async <T>(
  limit: Limit,
  work: readonly ((signal: AbortSignal) => Promise<T>)[],
  signal: AbortSignal,
): Promise<T[]> => {
  const failed = new AbortController()
  const either = AbortSignal.any([signal, failed.signal])
  const outcomes = await Promise.allSettled(
    work.map((one) =>
      limit(async () => {
        either.throwIfAborted()
        try {
          return await one(either)
        } catch (error) {
          failed.abort(error)
          throw error
        }
      }),
    ),
  )
  signal.throwIfAborted()
  failed.signal.throwIfAborted()
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<Awaited<T>>).value)
}
