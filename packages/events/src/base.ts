/** A line's versions are differences to one base model: on another they mean nothing. */
import { InstarError } from './errors.ts'
import type { WeightLine } from './folds/weights.ts'

/** `sha256` as `LineStarted` has it: over config, tokenizer, chat template and weights. Throws `other_base`; nothing for a line that has not begun. */
export const requireBase = ({ started }: Pick<WeightLine, 'started'>, model: { name: string; sha256: string }): void => {
  if (!started || started.base.sha256 === model.sha256) return
  const named = ({ name, sha256 }: { name: string; sha256: string }): string => `${name} (sha256 ${sha256.slice(0, 12)} over config, tokenizer, chat template and weights)`
  throw new InstarError('other_base', `The versions on this log were made of ${named(started.base)}; the model that is given is ${named(model)}.`, { expected: started.base.sha256, found: model.sha256 })
}
