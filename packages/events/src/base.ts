/** Checks that the configured model, and the adapter on it, are the base of a line, since its versions are adapters of that. */
import { InstarError } from './errors.ts'
import type { WeightLine } from './folds/weights.ts'

/**
 * A base model as in `LineStarted`. `sha256` covers configuration, tokenizer, chat template and weights;
 * `sha256Named(name)` is the hash that the model has under another file name.
 */
type Base = { name: string; sha256: string; sha256Named?: (name: string) => string }

export const isBase = (base: Pick<Base, 'name' | 'sha256'>, { sha256, sha256Named }: Omit<Base, 'name'>): boolean =>
  base.sha256 === sha256 || base.sha256 === sha256Named?.(base.name)

/** Throws `other_base` if the line has started with another base model. */
export const requireBase = ({ started }: Pick<WeightLine, 'started'>, model: Base): void => {
  if (!started || isBase(started.base, model)) return
  const named = ({ name, sha256 }: { name: string; sha256: string }): string =>
    `${name} (sha256 ${sha256.slice(0, 12)} of configuration, tokenizer, chat template and weights)`
  throw new InstarError(
    'other_base',
    `The versions on this log are based on ${named(started.base)}; the configured model is ${named(model)}.`,
    { expected: started.base.sha256, found: model.sha256 },
  )
}

/** Throws `other_base` if the line has started without this adapter (`tensors`: digest by tensor) as a part of its base. */
export const requireBaseAdapter = (
  { started }: Pick<WeightLine, 'started'>,
  { tensors, source }: { tensors: string; source: string },
): void => {
  if (!started || started.imported?.tensors === tensors) return
  const has = started.imported ? `the adapter ${started.imported.source}` : 'no adapter'
  throw new InstarError(
    'other_base',
    `The line on this log started with ${has} on its base model; INSTAR_BASE_ADAPTER names ${source}, which starts a new line only.`,
    { expected: started.imported?.tensors ?? null, found: tensors },
  )
}
