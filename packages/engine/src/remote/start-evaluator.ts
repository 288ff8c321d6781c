/** Opens the `Evaluator` over the servers of INSTAR_ENGINE. */
import { InstarError } from '@instar/events'
import type { Model } from '../port.ts'
import { engineAddress } from '../protocols/address.ts'
import { PROTOCOLS } from '../protocols/table.ts'
import type { RemoteEngine } from './engine.ts'
import { RemoteEvaluator, type OpenEvaluator } from './evaluator.ts'
import { GateAdapters } from './gate-adapters.ts'
import { createLimit } from './limit.ts'
import { startRemote, type RemoteOptions } from './start.ts'

export type RemoteEvaluatorOptions = Omit<RemoteOptions, 'adapterNames' | 'files' | 'timeouts' | 'accepts'> & {
  /** Requests that run at once at all replicas together. */
  concurrency: number
  /** Milliseconds for one request. */
  requestMs: number
}

/**
 * `evaluator` null: the engine cannot measure candidates, with the reason. Throws as `startRemote`.
 */
export const startRemoteEvaluator = async (
  options: RemoteEvaluatorOptions,
): Promise<{ evaluator: OpenEvaluator; fault: null } | { evaluator: null; fault: string }> => {
  const { concurrency, requestMs, ...remoteOptions } = options
  const { kind } = engineAddress(options.engine)
  const protocol = PROTOCOLS[kind]
  if (!protocol.adapter || (!protocol.next && !protocol.score))
    return { evaluator: null, fault: `${kind} computes no log-probs of given tokens under an adapter` }
  const adapters = new GateAdapters(options.adapters)
  await adapters.pruneCandidates()
  const { engine, model, adapterFault, logprobs } = await startRemote({
    ...remoteOptions,
    adapterNames: (sha256) => adapters.nameFor(sha256),
    files: adapters,
    timeouts: { firstByteMs: requestMs, idleMs: requestMs, jsonMs: requestMs },
  })
  try {
    const byPosition = adapterFault === null && (await computesNext(engine, model))
    const fault =
      adapterFault ??
      (byPosition || (protocol.score && !protocol.score.exclusive)
        ? null
        : 'it computes no log-probs of given tokens while it serves (vLLM: `logprob_token_ids` of /v1/completions)')
    if (fault !== null) {
      await engine.close()
      return { evaluator: null, fault }
    }
    const parts = { engine, model, adapters, byPosition, limit: createLimit(concurrency), logLine: options.logLine }
    const evaluator = new RemoteEvaluator({ ...parts, anyTemperature: byPosition && logprobs.temperature })
    await evaluator.removeLeftovers()
    return { evaluator, fault: null }
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Whether all replicas that are up report the log-prob of a token that is named. */
const computesNext = async (engine: RemoteEngine, model: Model): Promise<boolean> => {
  const request = { prompt: model.encode('a'), ids: [model.vocabulary - 1], adapter: null, temperature: 1 }
  try {
    await engine.fleet.onEach(null, (replica) => replica.next(request, undefined))
    return true
  } catch (error) {
    if (error instanceof InstarError && (error.code === 'engine_refused' || error.code === 'not_available'))
      return false
    throw error
  }
}
