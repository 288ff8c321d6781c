import { setTimeout as delay } from 'node:timers/promises'

/** Rejects with the signal's reason when it is aborted. */
export const wait = async (ms: number, signal?: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, signal ? { signal } : {})
  } catch (error) {
    throw signal?.aborted ? signal.reason : error
  }
}
