/** Promises that a subscription waits for. */

export const after = <T>(ms: number, value: T): Promise<T> =>
  new Promise((resolve) => {
    setTimeout(() => resolve(value), ms)
  })

/** Undefined once the signal is aborted. */
export const orAborted = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> => {
  if (signal.aborted) return Promise.resolve(undefined)
  const aborted = Promise.withResolvers<undefined>()
  const onAbort = (): void => aborted.resolve(undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', onAbort))
}
