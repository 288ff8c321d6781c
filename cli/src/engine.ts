import { ENGINES, type EngineChoice } from '@instar/policy/runtime/engines'
import { UsageError } from './command.ts'

/** `option`: as the user wrote it, for the message. */
export const engineOf = (name: string, option = '--engine'): EngineChoice => {
  const engine = ENGINES.find((one) => one === name)
  if (!engine) throw new UsageError(`${option} ${name}: one of ${ENGINES.join(', ')}`)
  return engine
}

/**
 * What learns where somebody may have said so in three ways: its own option, INSTAR_LEARN_ENGINE, or the option for
 * both.
 */
export const learnEngineOf = (
  option: string | undefined,
  variable: EngineChoice,
  both: string | undefined,
): EngineChoice => {
  if (option !== undefined) return engineOf(option, '--learn-engine')
  return variable === 'auto' && both !== undefined ? engineOf(both) : variable
}
