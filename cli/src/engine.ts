/** Parses the options that select an engine. */
import { ENGINES, type EngineChoice } from '@instar/policy/runtime/engines'
import { UsageError } from './command.ts'

/** `option`: its name, for the error. Throws `UsageError`. */
export const parseEngine = (name: string, option = '--engine'): EngineChoice => {
  const engine = ENGINES.find((one) => one === name)
  if (!engine) throw new UsageError(`${option} ${name}: must be one of ${ENGINES.join(', ')}`)
  return engine
}

/**
 * The engine that computes updates: `learnOption` (--learn-engine), else `learnVariable` (INSTAR_LEARN_ENGINE) unless
 * it is auto, else `engineOption` (--engine). Throws `UsageError`.
 */
export const parseLearnEngine = (
  learnOption: string | undefined,
  learnVariable: EngineChoice,
  engineOption: string | undefined,
): EngineChoice => {
  if (learnOption !== undefined) return parseEngine(learnOption, '--learn-engine')
  return learnVariable === 'auto' && engineOption !== undefined ? parseEngine(engineOption) : learnVariable
}
