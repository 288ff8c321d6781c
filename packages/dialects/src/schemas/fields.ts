/** Schemas of the fields that `../fields.ts` reads. Null counts as absent; what is not named is accepted and kept. */
import { z } from 'zod'
import { MEDIA } from '../fields.ts'

export const text = (description: string) => z.string().nullish().describe(description)
export const flag = (description: string) => z.boolean().nullish().describe(description)
export const number = (min: number, max: number, description: string) =>
  z.number().min(min).max(max).nullish().describe(description)
export const integer = (min: number, max: number, description: string) =>
  z.int().min(min).max(max).nullish().describe(description)

/** Any object. */
export const fields = z.looseObject({})

/** Anything but these texts. */
export const otherThan = (...texts: readonly string[]) =>
  z.union([
    z.string().regex(new RegExp(`^(?!(?:${texts.join('|')})$)`)),
    z.number(),
    z.boolean(),
    z.null(),
    z.array(z.unknown()),
    fields,
  ])

/** A part that is a text, of no kind that `MEDIA` names nor of these. */
export const textPart = (...kinds: readonly string[]) =>
  z.looseObject({ type: otherThan(...MEDIA, ...kinds).optional(), text: z.string() })

export const model = text('`policy` for the version that serves, `policy@17` to pin one; absent: `policy`.')
export const stream = flag('Server-sent events instead of one JSON value.')
export const temperature = number(0, 2, "Default: the model's own. A turn at 0 is captured, not trained on.")
export const topP = z.number().gt(0).lte(1).nullish().describe('Nucleus sampling.')
export const topK = integer(-1, Number.MAX_SAFE_INTEGER, 'The most likely tokens that are sampled from; 0 or -1: all.')
export const seed = integer(
  Number.MIN_SAFE_INTEGER,
  Number.MAX_SAFE_INTEGER,
  'Fixes what is sampled on one engine build.',
)
export const tokens = (description: string) => integer(1, Number.MAX_SAFE_INTEGER, description)

const penalty = (description: string) => number(-2, 2, description)
/** Of every dialect; a turn whose tokens are drawn from another distribution than the policy's is not trained on. */
export const reweighting = {
  frequency_penalty: penalty(
    'Less of what the answer has said often. A turn with it is captured, not trained on, as with the next four.',
  ),
  presence_penalty: penalty('Less of what the answer has said.'),
  repetition_penalty: z
    .number()
    .gt(0)
    .lte(10)
    .nullish()
    .describe('Less of what prompt or answer have said; 1: no less.'),
  min_p: number(0, 1, 'Only tokens that are at least so likely as the likeliest, times this.'),
  logit_bias: z
    .record(z.string().regex(/^\d{1,9}$/), z.number().min(-100).max(100))
    .refine((biases) => Object.keys(biases).length <= 1024)
    .meta({ maxProperties: 1024 })
    .nullish()
    .describe('By ids of tokens.'),
}

export const MAX_STOPS = 16
export const stops = z.array(z.string().min(1)).max(MAX_STOPS)
