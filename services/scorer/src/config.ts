/** Settings of the scorer. */
import { z } from 'zod'

/** The judges of shell/judge-table.ts. */
export const JUDGE_NAMES = ['llm', 'reactions'] as const
export type JudgeName = (typeof JUDGE_NAMES)[number]

/** Former names. Recorded verdicts keep them; settings may still use them. */
const ALIASES: Readonly<Record<string, JudgeName>> = { signals: 'reactions' }

/** The judge that a person names; null: there is none of that name. */
export const judgeNamed = (name: string): JudgeName | null =>
  ALIASES[name] ?? JUDGE_NAMES.find((one) => one === name) ?? null

const llm = z
  .object({
    /** Base of an OpenAI-compatible API, `…/v1`. */
    url: z.url(),
    model: z.string().min(1),
    key: z.string().nullable().default(null),
    /** Replies per turn; a strict majority of them is the verdict. */
    votes: z.int().min(1).max(15).default(3),
    temperature: z.number().min(0).max(2).default(0.6),
    maxTokens: z.int().positive().default(1024),
    /** What counts as good here, beside the general rubric. */
    rubric: z.string().nullable().default(null),
    timeoutMs: z.int().positive().default(60_000),
    /** A judge that cannot be reached is waited for this long; then the turn is skipped. */
    giveUpMs: z
      .int()
      .nonnegative()
      .default(15 * 60_000),
    firstRetryMs: z.int().positive().default(500),
  })
  .readonly()

export const scorerConfig = z
  .object({
    policy: z.string().default('policy'),
    /** A session in which no turn has finished for this long is closed. */
    idleMs: z
      .int()
      .positive()
      .default(10 * 60_000),
    /** Judges at work at once. */
    concurrency: z.int().positive().default(4),
    /** Turns that may wait for a judge that is slower than the reactions judge; the oldest beyond are skipped as `overloaded`. */
    backlog: z.int().positive().max(100_000).default(1024),
    /** The trainer's: what is further from the head is not put before such a judge, and skipped as `stale`. */
    staleness: z.int().nonnegative().default(4),
    /** In this order the first that has an opinion decides; explicit feedback always comes first. */
    judges: z
      .array(
        z.preprocess((name) => (typeof name === 'string' ? (judgeNamed(name) ?? name) : name), z.enum(JUDGE_NAMES)),
      )
      .nullable()
      .default(null),
    reactions: z
      .object({ movedOn: z.number().min(-1).max(1).nullable().default(null) })
      .readonly()
      .prefault({}),
    llm: llm.nullable().default(null),
  })
  .readonly()

export type ScorerConfig = z.infer<typeof scorerConfig>
export type LlmConfig = z.infer<typeof llm>

/** `llm` where one is configured, else `reactions`. */
export const judgeOrder = (config: ScorerConfig): readonly JudgeName[] =>
  config.judges ?? (config.llm ? ['llm'] : ['reactions'])
