/** The engines that all version lines of a run share, and the settings of learning. */
import { learningSettings, type LearningSettings } from '../../cli/src/learning-settings.ts'
import type { LearningEngine, Model, ServingEngine } from '@instar/engine/port'
import { openModel, startLearning, startServing } from '@instar/policy'
import type { Settings } from '@instar/process'
import { probesOf, type ProbeSet } from '@instar/publisher'

export type Engines = {
  serving: ServingEngine
  learner: LearningEngine
  model: Model
  probes: ProbeSet
  learning: Pick<LearningSettings, 'scorer' | 'trainer' | 'publisher' | 'parameters' | 'values'>
  close(): Promise<void>
}

/**
 * A learning engine that answers a repeated question to the base from memory: each line asks the base the same at its
 * start, and an evaluation is a function of its request.
 */
const rememberingBase = (learner: LearningEngine): LearningEngine => {
  const answers = new Map<string, ReturnType<LearningEngine['evaluate']>>()
  return {
    fingerprint: () => learner.fingerprint(),
    load: (adapter) => learner.load(adapter),
    unload: (sha256) => learner.unload(sha256),
    step: (...args) => learner.step(...args),
    score: (request) => learner.score(request),
    close: () => learner.close(),
    evaluate(request) {
      if (request.adapter !== null || request.references.length > 0) return learner.evaluate(request)
      const key = JSON.stringify(request)
      const known = answers.get(key)
      if (known) return known
      const answer = learner.evaluate(request)
      answers.set(key, answer)
      answer.catch(() => answers.delete(key))
      return answer
    },
  }
}

export const startEngines = async (settings: Settings): Promise<Engines> => {
  const learning = learningSettings(settings)
  const { model: path } = settings
  const serving = await startServing({ model: path, share: null })
  try {
    const learner = await startLearning({ model: path, share: null })
    return {
      serving,
      learner: rememberingBase(learner),
      model: await openModel(path),
      probes: probesOf(path, learning.publisher),
      learning,
      close: async () => {
        await learner.close()
        await serving.close()
      },
    }
  } catch (error) {
    await serving.close()
    throw error
  }
}
