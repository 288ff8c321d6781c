/**
 * Addresses of checkpoints: `tinker://RUN/weights/NAME`, `tinker://RUN/sampler_weights/NAME`,
 * `tinker://RUN/external_weights/NAME`; SkyRL 0.4.0 answers a save for the sampler with `tinker://RUN/NAME`.
 */
import { InstarError } from '@instar/events/errors'

export type CheckpointKind = 'weights' | 'sampler_weights' | 'external_weights'
/** `kind` null: the address does not say. */
export type CheckpointPath = { run: string; kind: CheckpointKind | null; name: string }

const KINDS: readonly string[] = ['weights', 'sampler_weights', 'external_weights'] satisfies CheckpointKind[]
/** One segment of a path of the HTTP API: neither `.` nor `..`, without separators and percent signs. */
const SEGMENT = /^[A-Za-z0-9_:.-]{1,255}$/

const isSegment = (text: string): boolean => SEGMENT.test(text) && !/^\.+$/.test(text)

/** First and last segment, and the kind between them if it is one. Throws `trainer_mismatch` for anything else. */
export const parsePath = (path: string): CheckpointPath => {
  const segments = path.startsWith('tinker://') ? path.slice('tinker://'.length).split('/') : []
  const [run, name] = [segments[0], segments.at(-1)]
  if (
    run === undefined ||
    name === undefined ||
    segments.length < 2 ||
    segments.length > 3 ||
    !segments.every(isSegment)
  )
    throw new InstarError(
      'trainer_mismatch',
      `${JSON.stringify(path.slice(0, 300))} is not the address of a checkpoint`,
    )
  const kind = segments.length === 3 ? segments[1] : null
  if (kind !== null && !KINDS.includes(kind ?? ''))
    throw new InstarError('trainer_mismatch', `${JSON.stringify(path.slice(0, 300))} has an unknown kind of checkpoint`)
  return { run, kind: kind as CheckpointKind | null, name }
}

export const savedPath = (model: string, kind: 'weights' | 'sampler_weights', name: string): string =>
  `tinker://${model}/${kind}/${name}`
