import { LOSS_NAMES } from '@instar/events'
import { z } from 'zod'
import { MAX_ITEMS } from './core/batch.ts'
import { MAX_TASK_EPISODES } from './core/episodes.ts'
import { MAX_CONTRAST, MAX_EPOCHS, MAX_RANK, MAX_REHEARSED } from './core/replay-settings.ts'

/** Hyperparameters of an update; measurements are in docs/learning.md. */
const step = z.object({
  rank: z.int().positive().max(MAX_RANK).default(8).describe('rank of the LoRA adapter; of a line that has none yet'),
  alpha: z.number().positive().default(16).describe('scale of the adapter is alpha / rank'),
  learningRate: z.number().positive().max(1).default(3e-3).describe('of Adam'),
  epochs: z.int().positive().max(MAX_EPOCHS).default(3).describe('passes over each batch'),
  miniBatches: z
    .int()
    .positive()
    .max(MAX_ITEMS)
    .default(1)
    .describe(
      'Adam steps of an epoch, each on a part of the batch; at most one per forward and backward pass; on a training server an epoch has one step',
    ),
  beta1: z.number().min(0).lt(1).default(0.9).describe('of Adam'),
  beta2: z.number().min(0).lt(1).default(0.95).describe('of Adam'),
  adamEpsilon: z
    .number()
    .positive()
    .max(1)
    .default(1e-8)
    .describe('added to the root of Adam’s second moment; far above it, a step goes along the gradient'),
  maxGradNorm: z.number().positive().default(1).describe('norm to which the gradient is clipped'),
  clipLow: z.number().nonnegative().default(0.2).describe('the probability ratio is clipped at 1 − clipLow'),
  clipHigh: z.number().nonnegative().default(0.28).describe('… and at 1 + clipHigh'),
  tisCap: z.number().nonnegative().default(2).describe('maximum importance weight of a token'),
  sequenceMask: z.number().min(1).default(4).describe('turns with a mean ratio outside [1/x, x] are masked'),
  opdWeight: z.number().nonnegative().default(1).describe('weight of the distillation from hints'),
  opdForward: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe(
      'part of the distillation that is forward KL, from the teacher to the policy; the rest is reverse KL; without effect under sampledTokens',
    ),
  opdContrast: z
    .number()
    .min(1)
    .max(MAX_CONTRAST)
    .default(1)
    .describe(
      'factor by which the teacher exaggerates what a hint changes: base + opdContrast · (base with the hint − base); 1: the base with the hint',
    ),
  rehearsalRows: z
    .int()
    .nonnegative()
    .max(MAX_REHEARSED)
    .default(0)
    .describe(
      'general prompts with the base’s own answers that each update rehearses, so that it forgets less; 0 on a training server',
    ),
  rehearsalWeight: z
    .number()
    .nonnegative()
    .default(1)
    .describe('weight of the KL to the base on the answers to them, a mean over their tokens'),
  klWeight: z.number().nonnegative().default(0.03).describe('weight of the KL to the base'),
  klFullAtAdvantage: z
    .number()
    .nonnegative()
    .default(0.5)
    .describe('mean absolute advantage at which that weight is full'),
  microBatchTokens: z.int().positive().default(256).describe('tokens of one forward and backward pass'),
  turnTokensMax: z
    .int()
    .nonnegative()
    .default(0)
    .describe(
      'tokens, prompt and answer, of the longest turn that is trained on; a longer one is left out; 0: no limit',
    ),
  referenceBytes: z
    .int()
    .nonnegative()
    .default(128 << 20)
    .describe(
      'bytes of the distributions of base and teacher that an update keeps; beyond it they are computed once per epoch',
    ),
  referenceTopK: z
    .int()
    .nonnegative()
    .default(0)
    .describe(
      'tokens kept of each distribution of base and teacher, all others as one bucket; 0: the whole distribution',
    ),
  turnFactor: z
    .number()
    .nonnegative()
    .default(4)
    .describe('maximum weight of a turn, in median turn lengths of the batch; 0: no limit'),
  weightShare: z
    .number()
    .min(0)
    .max(1)
    .default(0.25)
    .describe(
      'largest share of a batch’s weight of one subject or one API key, or its share of the turns if that is larger; 0: no limit',
    ),
  sampledTokens: z
    .literal([0, 1])
    .default(0)
    .describe(
      '1: distillation and the KL to the base are estimated from the sampled tokens at temperature 1, as always on a Tinker server; 0: from whole distributions',
    ),
  logRatioMax: z
    .number()
    .positive()
    .default(2)
    .describe('under sampledTokens: largest log-ratio of a token in those gradients, nats'),
  opdOverBatch: z.literal([0, 1]).default(1).describe('1: distillation is scaled by hinted turns / turns'),
  klParentMax: z
    .number()
    .positive()
    .default(0.02)
    .describe('largest KL of a step to its parent, nats per token of the batch; the gate measures on other samples'),
  klBaseMax: z.number().positive().default(0.2).describe('largest KL to the base, nats per token of the batch'),
})

/** Without a user and a query, since messages show it. */
const SERVER = /^(embedded|tinker\+https?:\/\/[^@?#\s]+)$/

const SERVER_FORM = 'must be embedded, or tinker+ followed by http://HOST:PORT or https://HOST'

export const trainerConfig = z.object({
  policy: z.string().default('policy'),
  server: z
    .string()
    .regex(SERVER, SERVER_FORM)
    .refine((server) => server === 'embedded' || URL.canParse(server.replace(/^tinker\+/, '')), SERVER_FORM)
    .default('embedded')
    .describe('where updates are computed: embedded, or a training server (tinker+http://…)'),
  serverModel: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('name of the base model on that server; null: the only one that it lists'),
  serverKey: z.string().nullable().default(null),
  sharedPrefixes: z
    .boolean()
    .default(true)
    .describe(
      'a training server gets one row for the turns of a session that extend each other, where its probe finds the same log-probs and gradients',
    ),
  batchSize: z.int().positive().max(MAX_ITEMS).default(16).describe('scored turns of a batch at least'),
  batchMax: z
    .int()
    .positive()
    .max(MAX_ITEMS)
    .default(64)
    .describe('scored turns of a batch at most: it grows from batchSize with what is pending, the newest turns first'),
  ahead: z
    .boolean()
    .default(false)
    .describe(
      'while the gate measures a candidate, the next batch is computed on it, and discarded if it is rejected; on an embedded engine that the gate does not measure with, for which a core must be free',
    ),
  scoresAlone: z
    .boolean()
    .default(true)
    .describe(
      'the trainer takes what a turn is from its score, and reads of the topic turns only those of its batches; from the first start at which it has read the log to its end and the last score says it',
    ),
  staleness: z
    .int()
    .nonnegative()
    .default(4)
    .describe('updates between the version that sampled a turn and the head, at most'),
  groupWaitMs: z
    .number()
    .nonnegative()
    .default(600_000)
    .describe('milliseconds that the turns of a request wait for its last candidate'),
  keyShare: z
    .number()
    .positive()
    .max(1)
    .default(0.5)
    .describe('largest share of a batch of one API key while at least two are active; never below an equal share'),
  keyHeardMs: z
    .number()
    .nonnegative()
    .default(7 * 24 * 3_600_000)
    .describe('milliseconds after its last turn for which a key is active'),
  subjectShare: z
    .number()
    .positive()
    .max(1)
    .default(0.5)
    .describe('share of a batch beyond which the turns of one person come after those of others'),
  learningShare: z
    .number()
    .nonnegative()
    .max(0.9)
    .default(0.5)
    .describe(
      'share of the time in which serving leaves the cores to learning while an update or a candidate is computed',
    ),
  taskEpisodes: z
    .int()
    .min(1)
    .max(MAX_TASK_EPISODES)
    .default(4)
    .describe('episodes of one task that are compared with each other'),
  taskWaitMs: z
    .number()
    .nonnegative()
    .default(600_000)
    .describe('milliseconds from the end of its first episode that a task waits for the others'),
  turnScoreWeight: z
    .number()
    .min(0)
    .max(1)
    .default(0.5)
    .describe('weight of the own score of a turn beside the outcome of its episode'),
  keepStates: z
    .int()
    .min(1)
    .default(5)
    .describe(
      'versions whose weights and optimizer a Tinker server keeps: training continues after a rollback to one of them',
    ),
  loss: z.enum(LOSS_NAMES).default('hybrid').describe('hybrid: rewards and hints; binary: rewards; opd: hints'),
  step: step.prefault({}),
})
export type TrainerConfig = z.infer<typeof trainerConfig>
