/** Runs an asynchronous function once per wake-up, never concurrently. */
export type Pump = {
  /** Starts a run, or schedules one more after the run in progress. */
  wake: () => void
  /** Resolves when no run is in progress. */
  idle: () => Promise<void>
}

export const createPump = (work: () => Promise<void>, onError: (error: Error) => void): Pump => {
  let running: Promise<void> | null = null
  let again = false
  const wake = (): void => {
    if (running) {
      again = true
      return
    }
    again = false
    running = work()
      .catch(onError as (error: unknown) => void)
      .then(() => {
        running = null
        if (again) wake()
      })
  }
  const idle = async (): Promise<void> => {
    while (running) await running
  }
  return { wake, idle }
}
