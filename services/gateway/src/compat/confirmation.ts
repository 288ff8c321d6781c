/**
 * Confirms the tokens of a submitted step: this gateway sampled them, or the version that the step names reproduces its
 * log-probs. One step is one request of the engine.
 */
import type { Hold } from '@instar/engine/port'
import { InstarError, type ErrorCode } from '@instar/events'
import type { ModelRequest } from '../generate/request.ts'
import type { Claim, ImportedRequest } from '../import/core/imported-request.ts'
import type { CompatPorts } from './ports.ts'
import type { TokenCompletions } from './token-completions.ts'

/** Tolerance of the mean log-prob of an answer, in nats. Engines differ by less; other weights differ by far more. */
const AGREE = 0.05

/** Errors that say nothing of a version. The step is not recorded, and may be sent again. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set(['overloaded', 'engine_lost', 'log_full', 'log_unavailable'])

type Confirmed = Pick<ImportedRequest, 'claim' | 'sampling' | 'sampledHere'>
type Scored = { prompt: readonly number[]; completion: readonly number[]; logprobs: readonly number[] }

/** Throws the error of an engine that is busy or lost, and the request's own end. */
export const confirm = async (
  ports: CompatPorts,
  completions: TokenCompletions,
  request: ModelRequest & { hold: Hold },
  { answers: [said], promptIds, claim, sampling }: ImportedRequest,
): Promise<Confirmed> => {
  const { vocabulary, contextLength } = ports.model
  if (!said?.ids || !said.logprobs || !promptIds || said.ids.length !== said.logprobs.length) return { claim, sampling }
  const { ids, logprobs } = said
  const sampled = completions.sampled(promptIds, ids)
  if (sampled && gap(sampled.logprobs, logprobs) < 1e-4)
    return {
      claim: { version: sampled.version, adapter: sampled.adapter, ours: true },
      sampling: sampled.sampling,
      sampledHere: true,
    }
  if (!claim || promptIds.length + ids.length > contextLength || [...promptIds, ...ids].some((id) => id >= vocabulary))
    return { claim, sampling }
  const scored = { prompt: promptIds, completion: ids, logprobs }
  const ours = await isReproduced(ports, request, scored, claim, sampling.temperature)
  return { claim: { ...claim, ours }, sampling }
}

/** A version that is unknown or cannot be evaluated does not confirm a step. */
const isReproduced = async (
  { pool, engine }: CompatPorts,
  { before, controller: { signal }, takePlace, hold }: ModelRequest & { hold: Hold },
  { prompt, completion, logprobs }: Scored,
  { version }: Claim,
  temperature: number,
): Promise<boolean> => {
  signal.throwIfAborted()
  takePlace()
  try {
    const lease = await before(pool.lease(version), (late) => late.release())
    // The version stays loaded until the engine has ended, also where the request ends before it.
    const score = async (): Promise<Float32Array> => {
      try {
        const asked = {
          prompt,
          completion,
          adapter: lease.adapter,
          temperature: temperature === 0 ? 1 : temperature,
          hold,
        }
        return await engine.score(asked, signal)
      } finally {
        lease.release()
      }
    }
    const scored = await before(score())
    return scored.length === completion.length && gap(scored, logprobs) < AGREE
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof InstarError && !TRANSIENT.has(error.code)) return false
    throw error
  }
}

/** Mean absolute difference of two lists of log-probs. */
const gap = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  if (a.length !== b.length || a.length === 0) return Infinity
  let sum = 0
  for (let at = 0; at < a.length; at += 1) sum += Math.abs(a[at]! - b[at]!)
  return sum / a.length
}
