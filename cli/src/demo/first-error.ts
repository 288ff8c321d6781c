/** Rejects what waits for the services with the first error that ended one of them. */
type FirstError = {
  onFatal(error: Error): void
  /** Settles as `work`, or rejects with the first error; a later rejection of `work` is ignored. */
  orFatal<T>(work: Promise<T>): Promise<T>
}

export const createFirstError = (): FirstError => {
  const { promise, reject } = Promise.withResolvers<never>()
  // An error while nothing waits is not an unhandled rejection; the next call of `orFatal` rejects with it.
  promise.catch(() => undefined)
  return { onFatal: reject, orFatal: (work) => Promise.race([promise, work]) }
}
