/**
 * The result of `work`, or the signal's reason as an error if it is aborted first. `work` goes on; `late` is then called
 * with its result.
 */
export const orAborted = async <T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  late: (value: T) => void = () => undefined,
): Promise<T> => {
  if (!signal) return work
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([work, aborted.promise])
  } catch (error) {
    work.then(late, () => undefined)
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
