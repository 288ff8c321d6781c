import { z } from 'zod'
import { THRESHOLDS } from './core/gate.ts'

export const publisherConfig = z.object({
  policy: z.string().default('policy'),
  thresholds: z
    .object({
      klParent: z.number().default(THRESHOLDS.klParent),
      klBase: z.number().default(THRESHOLDS.klBase),
      contentDrop: z.number().default(THRESHOLDS.contentDrop),
      lengthFactor: z.number().default(THRESHOLDS.lengthFactor),
      lengthSlack: z.number().default(THRESHOLDS.lengthSlack),
      cutShare: z.number().default(THRESHOLDS.cutShare),
      cutRise: z.number().default(THRESHOLDS.cutRise),
      lengthFloor: z.number().default(THRESHOLDS.lengthFloor),
      shortLength: z.number().default(THRESHOLDS.shortLength),
      entropyFloor: z.number().default(THRESHOLDS.entropyFloor),
      repetition: z.number().default(THRESHOLDS.repetition),
      positiveDrop: z.number().default(THRESHOLDS.positiveDrop),
    })
    .prefault({}),
  /** Held-out turns with a positive score for `positive_logprob`. */
  positiveTurns: z.int().nonnegative().default(16),
  /** Sampled answers for KL, length, entropy and repetition. */
  samples: z.int().positive().default(48),
  /** Limit of a sampled answer, in tokens. */
  maxTokens: z.int().positive().default(64),
})
export type PublisherConfig = z.infer<typeof publisherConfig>
