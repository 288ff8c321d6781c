/** A line's versions are adapters of one base model and have no meaning on another. */
import { InstarError } from './errors.ts'
import type { WeightLine } from './folds/weights.ts'

/**
 * The base of `LineStarted`. `sha256` covers config, tokenizer, chat template and weights; `sha256Named` is the hash
 * under a former name.
 */
type Base = { name: string; sha256: string; sha256Named?: (name: string) => string }

export const isBase = (base: Pick<Base, 'name' | 'sha256'>, { sha256, sha256Named }: Omit<Base, 'name'>): boolean =>
  base.sha256 === sha256 || base.sha256 === sha256Named?.(base.name)

/** Throws `other_base`; nothing for a line that has not begun. */
export const requireBase = ({ started }: Pick<WeightLine, 'started'>, model: Base): void => {
  if (!started || isBase(started.base, model)) return
  const named = ({ name, sha256 }: { name: string; sha256: string }): string =>
    `${name} (sha256 ${sha256.slice(0, 12)} over config, tokenizer, chat template and weights)`
  throw new InstarError(
    'other_base',
    `The versions on this log were made of ${named(started.base)}; the model that is given is ${named(model)}.`,
    { expected: started.base.sha256, found: model.sha256 },
  )
}
