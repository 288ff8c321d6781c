/** How long a request may take in all: until its time is over, or its key is revoked. */
import { InstarError } from '@instar/events'
import { Cancelled } from './candidate.ts'

export type Deadline = {
  /** What `work` gives, unless the end comes first: then it rejects as `Cancelled`, and `late` is given what came of the work. */
  before<T>(work: Promise<T>, late?: (value: T) => void): Promise<T>
  clear(): void
}

/** At the end, whatever is being generated is cut too. `revoked`: aborted with what the client is told. */
export const startDeadline = (ms: number, controller: AbortController, revoked: AbortSignal): Deadline => {
  const passed = Promise.withResolvers<never>()
  passed.promise.catch(() => undefined)
  const end = (cut: Cancelled): void => {
    controller.abort(cut)
    passed.reject(cut)
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
    before: (work, late = () => undefined) =>
      Promise.race([work, passed.promise]).catch((error: unknown) => {
        work.then(late, () => undefined)
        throw error
      }),
    clear() {
      clearTimeout(timer)
      revoked.removeEventListener('abort', refused)
    },
  }
}
