/** What an engine's refusal is to whoever asked. */
import { InstarError } from '@instar/events'

/** The statuses after which another replica, or the same a moment later, may answer. */
export const mayPass = (status: number): boolean => status === 408 || status === 425 || status === 429 || status >= 500

/** Busy, not broken: no reason to leave the replica alone. */
export const isBusy = (status: number): boolean => status === 429 || status === 503

/** In the words of vLLM, SGLang, llama.cpp and OpenAI. */
const TOO_LONG = /maximum context length|context[_ ](length|size|window)|exceeds? the (available|model'?s?) context|longer than the model's context/i

/** Of an answer whose status says that asking again is of no use. */
export const refusal = (kind: string, status: number, said: string): InstarError => {
  if (status === 400 && TOO_LONG.test(said)) return new InstarError('context_length_exceeded', said)
  if (status === 401 || status === 403) return new InstarError('engine_refused', `${kind} answered ${status}: INSTAR_ENGINE_KEY is missing or wrong.`, { status })
  return new InstarError('engine_refused', `${kind} answered ${status}: ${said}`, { status })
}
