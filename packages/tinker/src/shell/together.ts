/**
 * Starts calls that are of use only together. When one fails the others are aborted, and its error is the result: without that
 * a request that the server never answers stays open for its whole limit, and so does an unload behind it.
 */
export const together = async <T extends readonly Promise<unknown>[] | []>(
  outer: AbortSignal | undefined,
  start: (signal: AbortSignal) => T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> => {
  const ending = new AbortController()
  try {
    return await Promise.all(start(outer ? AbortSignal.any([outer, ending.signal]) : ending.signal))
  } catch (error) {
    ending.abort(error)
    throw error
  }
}
