/** What the services learn with: the base model, the engine that computes updates, and what candidates are measured with. */
import { InstarError } from '@instar/events'
import type { Fingerprint, LearningEngine, Model } from '@instar/engine/port'
import { openBase, startLearning } from '@instar/policy'
import { openGate, publisherConfig } from '@instar/publisher'
import { trainerConfig } from '@instar/trainer'
import type { ThreadData } from './protocol.ts'

/**
 * `learner`: the embedded learning engine; null where updates are computed on a training server and candidates are measured
 * through the servers of INSTAR_ENGINE. `gate`: what the publisher measures with.
 */
export type Learning = {
  model: Model
  learner: LearningEngine | null
  gate: Awaited<ReturnType<typeof openGate>>
}
export const startLearner = (
  { model, engine, learnEngine }: ThreadData['config'],
  signal: AbortSignal,
  share: ThreadData['share'] = null,
): Promise<LearningEngine> => startLearning({ model, engine: learnEngine ?? engine, share, signal })

const describeFingerprint = ({ engine, build, isa, threads }: Fingerprint): string =>
  `${engine} ${build} (${isa}, ${threads} thread${threads === 1 ? '' : 's'})`

/** Where updates are computed, in words. */
export const describeLearning = ({ learner }: Learning, { trainer }: ThreadData['config']): string => {
  const { server } = trainerConfig.parse(trainer)
  return server === 'embedded' && learner ? describeFingerprint(learner.fingerprint()) : server
}

/** Null where nothing is learned. Rejects with `aborted` after `signal`. */
export const loadLearning = async (
  { config, learns, share }: ThreadData,
  logLine: (line: string) => void,
  signal: AbortSignal,
): Promise<Learning | null> => {
  if (!learns) return null
  const needed = trainerConfig.parse(config.trainer).server === 'embedded' || !config.remote
  const learner = needed ? await startLearner(config, signal, share) : null
  try {
    const gate = publisherConfig.parse(config.publisher)
    const model = await openBase(config.model)
    const open = learner && (() => Promise.resolve(learner))
    return { learner, model, gate: await openGate(config.remote ?? null, gate, open, { logLine, signal }) }
  } catch (error) {
    await learner?.close()
    throw error
  }
}

export const requireLearner = ({ learner }: Learning): LearningEngine => {
  if (!learner) throw new InstarError('internal', 'the embedded trainer has no learning engine')
  return learner
}
