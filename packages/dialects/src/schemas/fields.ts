/** Schemas of the fields that `../fields.ts` reads. Null counts as absent; unknown fields are accepted and kept. */
import { z } from 'zod'
import { MAX_STOP_LENGTH, MAX_STOPS, MEDIA } from '../fields.ts'

export const text = (description: string) => z.string().nullish().describe(description)
export const flag = (description: string) => z.boolean().nullish().describe(description)
export const number = (min: number, max: number, description: string) =>
  z.number().min(min).max(max).nullish().describe(description)
export const integer = (min: number, max: number, description: string) =>
  z.int().min(min).max(max).nullish().describe(description)

/** Any object. */
export const fields = z.looseObject({})

/** Any value but these strings. */
export const otherThan = (...texts: readonly string[]) =>
  z.union([
    z.string().regex(new RegExp(`^(?!(?:${texts.join('|')})$)`)),
    z.number(),
    z.boolean(),
    z.null(),
    z.array(z.unknown()),
    fields,
  ])

/** A text part: `type` is none of `MEDIA` and none of `kinds`. */
export const textPart = (...kinds: readonly string[]) =>
  z.looseObject({ type: otherThan(...MEDIA, ...kinds).optional(), text: z.string() })

export const model = text('`policy`: the served version (default). `policy@17`: version 17.')
export const stream = flag('Responds with server-sent events instead of one JSON object.')
export const temperature = number(
  0,
  2,
  "Default: the model's. Turns with temperature 0 are captured, but not trained on.",
)
export const topP = z.number().gt(0).lte(1).nullish().describe('Nucleus sampling.')
export const topK = integer(-1, Number.MAX_SAFE_INTEGER, 'Number of most likely tokens to sample from; 0 or -1: all.')
export const seed = integer(
  Number.MIN_SAFE_INTEGER,
  Number.MAX_SAFE_INTEGER,
  'Makes sampling reproducible on one build of the engine.',
)
export const tokens = (description: string) => integer(1, Number.MAX_SAFE_INTEGER, description)

const penalty = (description: string) => number(-2, 2, description)
/** Fields of every dialect. A turn sampled from another distribution than the policy's is not trained on. */
export const reweighting = {
  frequency_penalty: penalty(
    'Penalizes tokens by their number in the answer. Turns with this field or one of the next four are captured, but not trained on.',
  ),
  presence_penalty: penalty('Penalizes tokens that are in the answer.'),
  repetition_penalty: z
    .number()
    .gt(0)
    .lte(10)
    .nullish()
    .describe('Penalizes tokens that are in the prompt or the answer; 1: no penalty.'),
  min_p: number(0, 1, "Minimum probability of a token, as a share of the most likely token's."),
  logit_bias: z
    .record(z.string().regex(/^\d{1,9}$/), z.number().min(-100).max(100))
    .refine((biases) => Object.keys(biases).length <= 1024)
    .meta({ maxProperties: 1024 })
    .nullish()
    .describe('Added to the logits, by token id.'),
}

export const stop = z.string().min(1).max(MAX_STOP_LENGTH)
export const stops = z.array(stop).max(MAX_STOPS)
