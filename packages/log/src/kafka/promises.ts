/** Promises that a subscription waits for. */

/** Waits that can be ended early, all at once. */
export class Rests {
  readonly #ends = new Set<() => void>()

  /** Resolves to `value` after `ms`, or at the next `end`. */
  rest<T>(ms: number, value: T): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>()
    const end = (): void => {
      clearTimeout(timer)
      this.#ends.delete(end)
      resolve(value)
    }
    const timer = setTimeout(end, ms)
    this.#ends.add(end)
    return promise
  }

  end(): void {
    for (const end of this.#ends) end()
  }
}

/** Resolves once the signal is aborted. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

/** Undefined once the signal is aborted. */
export const orAborted = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> => {
  if (signal.aborted) return Promise.resolve(undefined)
  const aborted = Promise.withResolvers<undefined>()
  const onAbort = (): void => aborted.resolve(undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', onAbort))
}
