import { LOSS_NAMES } from './core/loss-modes.ts'
import { z } from 'zod'
import { MAX_ITEMS } from './core/batch.ts'

/** Hyperparameters of an update; measurements are in docs/learning.md. */
const step = z.object({
  rank: z.int().positive().default(8),
  alpha: z.number().positive().default(16),
  learningRate: z.number().positive().default(3e-3),
  epochs: z.int().positive().default(3),
  beta1: z.number().default(0.9),
  beta2: z.number().default(0.95),
  maxGradNorm: z.number().positive().default(1),
  clipLow: z.number().default(0.2),
  clipHigh: z.number().default(0.28),
  tisCap: z.number().default(2),
  sequenceMask: z.number().default(4),
  opdWeight: z.number().default(1),
  klWeight: z.number().default(0.03),
  klFullAtAdvantage: z.number().default(0.5),
  microBatchTokens: z.int().positive().default(256),
  turnFactor: z.number().nonnegative().default(4),
  opdOverBatch: z.literal([0, 1]).default(1),
  /** KL in nats per token of the batch. The gate measures on answers sampled from the candidate; its limits are higher. */
  klParentMax: z.number().positive().default(0.02),
  klBaseMax: z.number().positive().default(0.2),
})

export const trainerConfig = z.object({
  policy: z.string().default('policy'),
  batchSize: z.int().positive().max(MAX_ITEMS).default(16),
  staleness: z.int().nonnegative().default(4),
  /** Milliseconds that the turns of a request wait for its last candidate. */
  groupWaitMs: z.number().nonnegative().default(600_000),
  /**
   * The largest share of a batch, 0…1, of one API key while at least two keys were active within `keyHeardMs`; never
   * below an equal share. 1: no limit.
   */
  keyShare: z.number().positive().max(1).default(0.5),
  /** Milliseconds after its last turn for which a key is active. */
  keyHeardMs: z
    .number()
    .nonnegative()
    .default(7 * 24 * 3_600_000),
  /** The share of a batch, 0…1, beyond which a subject's turns come after those of other subjects. */
  subjectShare: z.number().positive().max(1).default(0.5),
  /** `hybrid`: rewards and hints. `binary`: rewards only. `opd`: hints only. */
  loss: z.enum(LOSS_NAMES).default('hybrid'),
  step: step.prefault({}),
})
export type TrainerConfig = z.infer<typeof trainerConfig>
