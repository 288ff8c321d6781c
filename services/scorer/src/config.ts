/** Settings of the scorer. */
import { LONGEST_TIMER_MS } from '@instar/log'
import { nearestName } from '@instar/process'
import { z } from 'zod'
import { WORDING_SETS } from './core/hints.ts'
import { LEAST_OPINIONS } from './core/own-record.ts'

/** The judges of shell/judge-table.ts. `auto`: `self` or `reactions` (shell/choose-judge.ts). */
const JUDGE_NAMES = ['llm', 'reactions', 'self', 'auto'] as const
export type JudgeName = (typeof JUDGE_NAMES)[number]

/** Former names. Recorded verdicts keep them; settings may still use them. */
const ALIASES: Readonly<Record<string, JudgeName>> = { signals: 'reactions' }

/** The judge that a person names; null: there is none of that name. */
export const judgeNamed = (name: string): JudgeName | null =>
  ALIASES[name] ?? JUDGE_NAMES.find((one) => one === name) ?? null

/** Of a judge that is a model. */
const asked = {
  votes: z.int().min(1).max(15).default(3).describe('replies per turn; a strict majority of them is the verdict'),
  temperature: z.number().min(0).max(2).default(0.6).describe('temperature of the replies; one vote is greedy'),
  maxTokens: z.int().positive().default(1024).describe('limit of a reply, tokens'),
  rubric: z.string().nullable().default(null).describe('what counts as good here, beside the general rubric'),
  timeoutMs: z.int().positive().max(LONGEST_TIMER_MS).default(60_000).describe('milliseconds for one reply'),
  giveUpMs: z
    .int()
    .nonnegative()
    .default(15 * 60_000)
    .describe('milliseconds for which a judge that cannot be reached is waited for; then the turn is skipped'),
  failures: z
    .int()
    .nonnegative()
    .default(6)
    .describe('failed attempts in a row after which the reactions judge takes over; 0: never'),
  agreement: z
    .number()
    .min(0)
    .max(1)
    .default(0.5)
    .describe(
      'agreement with the reactions judge: least share of the last 48 opinions that have its sign; below, it takes over; 0: no limit',
    ),
  retryMs: z
    .int()
    .positive()
    .default(30_000)
    .describe('milliseconds between two turns with which a judge that was replaced is tried again'),
  firstRetryMs: z.int().positive().default(500).describe('milliseconds before the first retry; doubled for each next'),
}

const llm = z
  .object({
    url: z.url().describe('base of an OpenAI-compatible API, `…/v1`; setting it selects this judge'),
    model: z.string().min(1).default('default').describe('name of the model at the API'),
    key: z.string().nullable().default(null),
    ...asked,
  })
  .readonly()

/** The base weights judge through the gateway, for which they have time while no request runs. */
const self = z
  .object({
    ...asked,
    maxTokens: asked.maxTokens.unwrap().default(256).describe('limit of a reply, tokens'),
    characters: z
      .int()
      .min(400)
      .default(4000)
      .describe('characters of what was said that a judgement is shown; of longer texts the two ends'),
    timeoutMs: asked.timeoutMs
      .unwrap()
      .default(120_000)
      .describe('milliseconds for one reply, with its wait until no request runs'),
  })
  .readonly()

/** Names as they stand, former ones as the present ones. Refuses an unknown one with the nearest. */
const judgeNames = z.preprocess(
  (given, context) => {
    if (!Array.isArray(given)) return given
    return given.map((name: unknown, i) => {
      if (typeof name !== 'string') return name
      const known = judgeNamed(name)
      if (known === null)
        context.addIssue({
          code: 'custom',
          path: [i],
          message: `there is no judge of this name; did you mean ${nearestName(name, JUDGE_NAMES)}?`,
        })
      return known ?? name
    })
  },
  z.array(z.enum(JUDGE_NAMES)),
)

export const scorerConfig = z
  .object({
    policy: z.string().default('policy'),
    idleMs: z
      .int()
      .positive()
      .default(10 * 60_000)
      .describe('milliseconds without a finished turn after which a session is closed'),
    concurrency: z.int().positive().max(1024).default(4).describe('turns that are judged at once'),
    backlog: z
      .int()
      .positive()
      .max(100_000)
      .default(1024)
      .describe(
        'turns that may wait for a judge other than `reactions`; the oldest beyond are skipped as `overloaded`',
      ),
    /** The trainer's: what is further from the head is not put before such a judge, and skipped as `stale`; its batches. */
    staleness: z.int().nonnegative().default(4),
    batchSize: z.int().positive().default(16),
    batchMax: z.int().positive().default(64),
    waitingBatches: z
      .int()
      .nonnegative()
      .max(8)
      .default(2)
      .describe(
        'batches of `training.batchMax` scored turns that may wait for the trainer: from then on a judge other than `reactions` is asked about no more turns, until a batch is sealed, and what has no room in the backlog is skipped as `surplus`; 0: no limit',
      ),
    agreement: z
      .int()
      .min(1)
      .max(16)
      .default(2)
      .describe(
        'agreement among people: how many (API keys; without keys, subjects) must claim a value before a score that rests on it counts; 1 for a line that one person uses',
      ),
    duplicates: z
      .int()
      .min(1)
      .max(64)
      .default(4)
      .describe('scores of the same request, answer and reaction in 24 hours; more are skipped as `duplicate`'),
    askedAlone: z
      .int()
      .min(1)
      .max(64)
      .default(2)
      .describe(
        'scores on the same question in 30 days by which one subject may exceed all others, and one API key all others; more are skipped as `asked_alone`. Without effect while one person uses the line',
      ),
    contradictions: z
      .int()
      .min(0)
      .max(64)
      .default(LEAST_OPINIONS)
      .describe(
        'opinions of a person on answers of each of two kinds, one mostly praised and one mostly complained about, from which on explicit feedback without a comment against its kind is skipped as `contradicted` until it repeats; 0: none is',
      ),
    judges: judgeNames
      .nullable()
      .default(null)
      .describe(
        'the first judge with an opinion decides. `self`: the base weights of the served model; `auto`: `self` where it was measured better at the first start of the line, else `reactions`; null: `llm` where one is configured, else in `npm start` `auto` for models above 10 million parameters, else `reactions`',
      ),
    reactions: z
      .object({
        movedOn: z
          .number()
          .min(-1)
          .max(1)
          .nullable()
          .default(null)
          .describe('reward of an answer after which the person goes on to another subject; null: none'),
        wordings: z
          .enum(WORDING_SETS)
          .default('tiny')
          .describe('the wordings of hints: those that the model which ships follows, or those of general models'),
      })
      .readonly()
      .prefault({}),
    llm: llm.nullable().default(null),
    self: self.prefault({}),
  })
  .refine(({ judges, llm: configured }) => configured !== null || judges?.includes('llm') !== true, {
    path: ['judges'],
    message: 'the judge `llm` needs judge.llm.url (INSTAR_JUDGE_URL)',
  })
  .readonly()

export type ScorerConfig = z.infer<typeof scorerConfig>
export type LlmConfig = z.infer<typeof llm>
export type SelfConfig = z.infer<typeof self>

/** With this judge alone: no other steps in for it. */
export const onlyJudge = (config: ScorerConfig, judge: JudgeName): ScorerConfig => ({
  ...config,
  judges: [judge],
  llm: config.llm && { ...config.llm, failures: 0, agreement: 0 },
  self: { ...config.self, failures: 0, agreement: 0 },
})

/** `llm` where one is configured, else `reactions`. */
export const judgeOrder = (config: ScorerConfig): readonly JudgeName[] =>
  config.judges ?? (config.llm ? ['llm'] : ['reactions'])

/** What judges, for people. */
export const judgeText = (config: ScorerConfig): string => {
  const [first] = judgeOrder(config)
  return first === 'llm' && config.llm
    ? `judging with ${config.llm.model}`
    : first === 'self'
      ? 'judging with the base weights of the served model'
      : 'judging by reactions'
}
