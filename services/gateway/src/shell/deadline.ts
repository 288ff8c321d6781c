/** How long a request may take in all. */
import { InstarError } from '@instar/events'
import { Cut } from './candidate.ts'

export type Deadline = {
  /** What `work` gives, unless the time is over first: then it rejects as `Cut`, and `late` is given what came of the work. */
  before<T>(work: Promise<T>, late?: (value: T) => void): Promise<T>
  clear(): void
}

/** When the time is over, whatever is being generated is cut too. */
export const startDeadline = (ms: number, controller: AbortController): Deadline => {
  const passed = Promise.withResolvers<never>()
  passed.promise.catch(() => undefined)
  const timer = setTimeout(() => {
    const cut = new Cut('engine_failed', new InstarError('answer_timeout', `The answer took longer than ${ms / 1000} s.`, { limitMs: ms }))
    controller.abort(cut)
    passed.reject(cut)
  }, Math.min(ms, 2 ** 31 - 1))
  return {
    before: (work, late = () => undefined) => Promise.race([work, passed.promise]).catch((error: unknown) => {
      work.then(late, () => undefined)
      throw error
    }),
    clear: () => clearTimeout(timer),
  }
}
