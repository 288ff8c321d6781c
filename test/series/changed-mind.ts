/**
 * A series of updates in which everybody wants long answers, and from half-way on short ones, under a limit of the KL to
 * the base that the first wish alone reaches. Rewards say so, hints do not.
 */
import { USERS } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'
import { startSeries, type Feedback, type SeriesPorts } from './series.ts'

const WORDS = 9
const wordsOf = (text: string): number => text.trim().split(/\s+/).length
const isLong = (text: string): boolean => wordsOf(text) >= WORDS
const rewardIf =
  (wanted: (text: string) => boolean): Feedback =>
  ({ text }) => ({ reward: wanted(text) ? 1 : -1, hint: null })

export type ChangedMind = {
  updates: number
  /** Updates that were drawn towards the base to stay within the limit. */
  atLimit: number
  /** Reasons of the gate. */
  rejected: string[]
  /** Shares of long answers of the base, of the version half-way, and of the last one, on ASKED other questions. */
  long: { base: number; half: number; end: number }
}

const ASKED = 96

export const changedMind = async (
  ports: SeriesPorts,
  {
    updates,
    klBaseMax,
    seed,
    logLine,
  }: { updates: number; klBaseMax: number; seed: number; logLine(line: string): void },
): Promise<ChangedMind> => {
  const series = await startSeries(ports, seed, { step: { klBaseMax } })
  const found: ChangedMind = {
    updates: 0,
    atLimit: 0,
    rejected: [],
    long: { base: 0, half: 0, end: 0 },
  }
  const asked = questions({ heldOut: true, split: 'evaluation', seed: 4, count: ASKED }).map(({ question }, i) =>
    ports.model.promptIds(
      [
        { role: 'system', content: USERS[i % USERS.length]!.system },
        { role: 'user', content: question },
      ],
      {},
    ),
  )
  const longShare = async (): Promise<number> => {
    const sampling = { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 64, stop: [] }
    const request = { prompts: asked, adapter: series.head(), references: [], sampling }
    const { completions } = await series.evaluate(request)
    return completions.filter(({ text }) => isLong(text)).length / completions.length
  }
  const half = Math.ceil(updates / 2)
  try {
    found.long.base = await longShare()
    for (const [name, feedback] of [
      ['half', rewardIf(isLong)],
      ['end', rewardIf((text) => !isLong(text))],
    ] as const) {
      for (let at = 0; at < half; at += 1) {
        const step = await series.learn(feedback)
        // Answers that are all alike give no signal: the wish is met, or unmet, by all of them.
        if (!step) break
        found.updates += 1
        if (step.update.baseScale! < 1) found.atLimit += 1
        if (step.reason !== null) found.rejected.push(step.reason)
        logLine(
          `to the ${name}: ${step.rewarded.toFixed(2)} as wanted; KL to the base ${step.figures['kl_base']?.toFixed(3)}, drawn back to ${step.update.baseScale?.toFixed(2)}; ${step.reason ?? 'accepted'}`,
        )
      }
      found.long[name] = await longShare()
      logLine(`long answers: ${found.long[name].toFixed(2)}`)
    }
    return found
  } finally {
    await series.stop()
  }
}
