import { z } from 'zod'
import { THRESHOLDS } from './core/gate.ts'

export const publisherConfig = z.object({
  policy: z.string().default('policy'),
  thresholds: z
    .object({
      klParent: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.klParent)
        .describe('largest KL to the serving version, nats per token of sampled answers'),
      klBase: z.number().nonnegative().default(THRESHOLDS.klBase).describe('largest KL to the base'),
      contentDrop: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.contentDrop)
        .describe('largest drop of the share of probes answered correctly, below the best version'),
      lengthFactor: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthFactor)
        .describe('largest mean length of an answer, in multiples of the parent’s …'),
      lengthSlack: z.number().nonnegative().default(THRESHOLDS.lengthSlack).describe('… plus these tokens'),
      cutShare: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.cutShare)
        .describe('largest share of samples cut at `maxTokens`, or …'),
      cutRise: z.number().nonnegative().default(THRESHOLDS.cutRise).describe('… the parent’s share plus this'),
      lengthFloor: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthFloor)
        .describe('smallest mean length, as a multiple of the parent’s …'),
      shortLength: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.shortLength)
        .describe('… if that has at least these tokens'),
      entropyFloor: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.entropyFloor)
        .describe('smallest mean entropy, as a multiple of the parent’s'),
      repetition: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.repetition)
        .describe('largest share of repeated 4-grams in the samples'),
      positiveDrop: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.positiveDrop)
        .describe('largest drop of the log-probability per token of held-out praised turns, nats'),
    })
    .prefault({}),
  positiveTurns: z.int().nonnegative().default(16).describe('held-out praised turns that are measured'),
  samples: z.int().positive().default(48).describe('sampled answers for KL, length, entropy and repetition'),
  maxTokens: z.int().positive().default(64).describe('limit of a sampled answer, tokens'),
})
export type PublisherConfig = z.infer<typeof publisherConfig>
