/** Opens what the gate measures with, where answers come from the servers of INSTAR_ENGINE. */
import { InstarError } from '@instar/events/errors'
import { engineAddress, PROTOCOLS, startRemoteEvaluator, type OpenEvaluator } from '@instar/engine'
import type { Evaluator } from '@instar/engine/port'
import { isNeutral, openTokenizer } from '@instar/policy'
import type { Settings } from '@instar/process'
import type { PublisherConfig } from '../config.ts'
import { rowsOfLearner, type TrainedRows } from './serving.ts'

export type EvaluatorSettings = Pick<Settings, 'engine' | 'engineKey' | 'engineModel' | 'adapters' | 'model'>

/** `evaluator` null: the engine cannot measure candidates, with the reason. Throws as `startRemote`. */
export const openEvaluator = async (
  { engine, engineKey, engineModel, adapters, model }: EvaluatorSettings,
  { remote }: Pick<PublisherConfig, 'remote'>,
  options: { logLine?: (line: string) => void; signal?: AbortSignal },
): Promise<{ evaluator: OpenEvaluator; fault: null } | { evaluator: null; fault: string }> => {
  if (!PROTOCOLS[engineAddress(engine).kind].ids) return { evaluator: null, fault: 'it gives no token ids' }
  return startRemoteEvaluator({
    engine,
    model: await openTokenizer(model),
    adapters,
    isNeutral,
    key: engineKey,
    servedName: engineModel,
    concurrency: remote.concurrency,
    requestMs: 1000 * remote.requestSeconds,
    ...options,
  })
}

type Gate = { evaluator: Evaluator; trained?: TrainedRows; close(): Promise<void> }

/**
 * What the gate measures with: the servers of INSTAR_ENGINE, which must agree with the trainer; where they cannot measure,
 * or the model is served in Instar itself, the embedded learning engine, which `learner` gives where it is needed. Throws as
 * `startRemote` and `learner`, and `not_available` where that engine is needed and `learner` is null.
 */
export const openGate = async (
  settings: EvaluatorSettings | null,
  config: Pick<PublisherConfig, 'remote'>,
  learner: (() => Promise<Evaluator>) | null,
  options: { logLine?: (line: string) => void; signal?: AbortSignal },
): Promise<Gate> => {
  const embedded = async (fault: string): Promise<Gate> => {
    if (!learner)
      throw new InstarError('not_available', `The gate has nothing to measure candidates with: ${fault}.`, {
        field: 'INSTAR_ENGINE',
      })
    return { evaluator: await learner(), close: () => Promise.resolve() }
  }
  if (settings === null || settings.engine === 'embedded') return embedded('INSTAR_ENGINE is embedded')
  const { evaluator, fault } = await openEvaluator(settings, config, options)
  if (!evaluator) {
    const gate = await embedded(`${settings.engine}: ${fault}`)
    options.logLine?.(`The gate measures with the embedded model, not through ${settings.engine}: ${fault}.`)
    return gate
  }
  return { evaluator, ...(learner ? { trained: rowsOfLearner(learner) } : {}), close: () => evaluator.close() }
}
