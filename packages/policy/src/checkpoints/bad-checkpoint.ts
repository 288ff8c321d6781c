import { InstarError } from '@instar/events/errors'

/** A fault of a model's file, `bad_checkpoint`. `details` go into the error's details besides `file`. */
export const badCheckpoint = (
  file: string,
  problem: string,
  details: Readonly<Record<string, unknown>> = {},
  cause?: unknown,
): InstarError =>
  new InstarError('bad_checkpoint', `${file}: ${problem}`, { file, ...details }, cause === undefined ? {} : { cause })

/** Of what a library throws on a file's content. */
export const unreadable = (file: string, error: unknown): InstarError =>
  badCheckpoint(file, error instanceof Error ? error.message : 'cannot be read', {}, error)
