/** An engine that is started when it is first needed: a line whose updates and answers are computed on servers needs none. */
export type OnDemand<T> = {
  /** Rejects as `start`, and starts again at the next call. */
  get(): Promise<T>
  close(): Promise<void>
}

export const onDemand = <T extends { close(): Promise<void> }>(start: () => Promise<T>): OnDemand<T> => {
  let started: Promise<T> | null = null
  return {
    get: () =>
      (started ??= start().catch((error: unknown) => {
        started = null
        throw error
      })),
    async close() {
      const running = await started?.catch(() => null)
      await running?.close()
    },
  }
}
