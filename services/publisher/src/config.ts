import { LONGEST_TIMER_MS } from '@instar/log'
import { z } from 'zod'
import { MINIMUM } from './core/battery.ts'
import { THRESHOLDS } from './core/gate.ts'

/** The judge of probes with a check by a judge. */
const probeJudge = z
  .object({
    url: z.url().describe('base of an OpenAI-compatible API that checks own probes with `judge`'),
    model: z.string().min(1).default('default').describe('name of the model at the API'),
    key: z.string().nullable().default(null),
    timeoutMs: z.int().positive().max(LONGEST_TIMER_MS).default(60_000).describe('milliseconds for one reply'),
  })
  .readonly()
export type ProbeJudgeConfig = z.infer<typeof probeJudge>

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
        .describe(
          'largest drop of the share of probes answered correctly, below the best version; for lines without recorded probes',
        ),
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
      lengthFloorBase: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthFloorBase)
        .describe('smallest mean length on the fixed prompts, as a multiple of the base’s'),
      entropyFloorBase: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.entropyFloorBase)
        .describe('smallest mean entropy on the fixed prompts, as a multiple of the base’s'),
      lengthRise: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthRise)
        .describe(
          'largest mean length on the fixed prompts while nobody asks for longer answers, in multiples of the longest that was asked for or of the base’s …',
        ),
      lengthRiseSlack: z.number().nonnegative().default(THRESHOLDS.lengthRiseSlack).describe('… plus these tokens'),
      lengthFall: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthFall)
        .describe(
          'smallest mean length on the fixed prompts while nobody asks for shorter answers, as a multiple of the shortest that was asked for or of the base’s',
        ),
      lengthAsked: z
        .number()
        .nonnegative()
        .default(THRESHOLDS.lengthAsked)
        .describe(
          'share of turns with hints for longer, or shorter, answers from which on they count as asked for; a running mean',
        ),
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
  fixedSamples: z.int().nonnegative().default(32).describe('those of them that answer the fixed prompts, at most'),
  maxTokens: z.int().positive().default(64).describe('limit of a sampled answer, tokens'),
  probes: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe(
      'a file of own probes, or a folder of *.jsonl files; null: probes.jsonl, or the folder probes, beside the model, if there is one',
    ),
  judge: probeJudge.optional(),
  remote: z
    .object({
      concurrency: z
        .int()
        .positive()
        .max(64)
        .default(4)
        .describe('requests of the gate that run at once at the servers of INSTAR_ENGINE, all together'),
      requestSeconds: z
        .number()
        .positive()
        .max(LONGEST_TIMER_MS / 1000)
        .default(300)
        .describe('seconds for one of them'),
      tolerance: z
        .number()
        .positive()
        .nullable()
        .default(null)
        .describe(
          'largest difference of a log-prob by trainer and server of the same token under a candidate, nats; null: by the difference under the base, at least 0.0001',
        ),
    })
    .prefault({}),
  battery: z
    .object({
      shipped: z.boolean().default(true).describe('whether the probes that ship follow own ones'),
      kept: z.int().positive().max(4096).default(128).describe('probes of a line at most; a verdict asks each once'),
      minimum: z.int().nonnegative().default(MINIMUM).describe('kept probes below which the gate has too few'),
      samples: z
        .int()
        .nonnegative()
        .max(64)
        .default(2)
        .describe('sampled answers of the base that must be correct too'),
      temperature: z.number().positive().default(0.7).describe('their temperature'),
      again: z
        .int()
        .positive()
        .max(64)
        .default(2)
        .describe('fresh answers of the base to each kept probe, from which the limit of falls is derived'),
      againTemperature: z
        .number()
        .positive()
        .default(0.1)
        .describe('their temperature; answers of a verdict are greedy'),
      seconds: z.number().positive().default(300).describe('seconds after which no further probes are put to the base'),
    })
    .prefault({}),
})
export type PublisherConfig = z.infer<typeof publisherConfig>
