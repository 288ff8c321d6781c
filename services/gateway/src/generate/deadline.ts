/** Limits a request's duration: it ends after its time limit or when its API key is revoked. */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import { Cancelled } from './candidate.ts'

export type Deadline = {
  /**
   * Returns the result of `work`. If the deadline comes first, rejects with `Cancelled` and calls `late` with the
   * result once it is there.
   */
  before<T>(work: Promise<T>, late?: (value: T) => void): Promise<T>
  clear(): void
}

/** The deadline also aborts `controller`. `revoked`: aborted with the error for the client. */
export const startDeadline = (ms: number, controller: AbortController, revoked: AbortSignal): Deadline => {
  let passed: Cancelled | null = null
  /** Of the work that is awaited. */
  const rejects = new Set<(cut: Cancelled) => void>()
  const end = (cut: Cancelled): void => {
    if (passed) return
    passed = cut
    controller.abort(cut)
    for (const reject of rejects) reject(cut)
    rejects.clear()
  }
  const late = (): void =>
    end(
      new Cancelled(
        'engine_failed',
        new InstarError('answer_timeout', `The answer took longer than ${ms / 1000} s.`, { limitMs: ms }),
      ),
    )
  const refused = (): void => end(new Cancelled('client_gone', revoked.reason as InstarError))
  const timer = setTimeout(late, Math.min(ms, 2 ** 31 - 1))
  revoked.addEventListener('abort', refused, { once: true })
  if (revoked.aborted) refused()
  return {
    // Promise.race on one promise for the whole request would take several times as long.
    before: (work, late = () => undefined) =>
      new Promise((resolve, reject) => {
        const cutOff = (cut: Cancelled): void => {
          reject(cut)
          work.then(late, () => undefined)
        }
        if (passed) return cutOff(passed)
        rejects.add(cutOff)
        work.then(
          (value) => {
            if (rejects.delete(cutOff)) resolve(value)
          },
          (error: unknown) => {
            if (rejects.delete(cutOff)) reject(error as Error)
          },
        )
      }),
    clear() {
      clearTimeout(timer)
      revoked.removeEventListener('abort', refused)
    },
  }
}

/** Resolves when `done` does, or after `ms`. */
export const within = async (done: Promise<void>, ms: number): Promise<void> => {
  const stop = new AbortController()
  await Promise.race([done, delay(ms, undefined, { signal: stop.signal }).catch(() => undefined)])
  stop.abort()
}
