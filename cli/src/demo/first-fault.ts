/** The first fault that ends the services, for whoever waits for them. */
type FirstFault = {
  onFatal(error: Error): void
  /** As `work` ends, unless a fault came before; what `work` comes to after that is nobody's. */
  before<T>(work: Promise<T>): Promise<T>
}

export const firstFault = (): FirstFault => {
  const { promise, reject } = Promise.withResolvers<never>()
  // While nobody waits it is nobody's either; the next who waits meets it.
  promise.catch(() => undefined)
  return { onFatal: reject, before: (work) => Promise.race([promise, work]) }
}
