/**
 * A person who gives explicit feedback without words and wants answers of nine words or more; a share of the signs is wrong.
 * The real scorer judges it.
 */
import { createScorer, scorerConfig } from '@instar/scorer'
import type { User } from '../../cli/src/demo/users.ts'
import { questions } from '../../models/tiny/recipe/questions.ts'
import { chance, seeded } from '../../models/tiny/recipe/random.ts'
import { startSeries, type SeriesPorts } from './series.ts'

const isLong = (text: string): boolean => text.trim().split(/\s+/).length >= 9
const PERSON: User = {
  name: 'Anna',
  requestUser: 'Anna',
  system: 'The person is Anna.',
  complaints: [],
  thanks: [],
  satisfied: isLong,
}
const ASKED = 64

/** `long`: shares of long answers to ASKED other questions. `skipped`: scores that the guard withheld, with wrong and with right signs. */
export type WrongSigns = { long: { before: number; after: number }; skipped: { wrong: number; right: number } }

export const wrongSigns = async (
  ports: SeriesPorts,
  {
    updates,
    seed,
    share,
    contradictions,
    logLine = () => undefined,
  }: { updates: number; seed: number; share: number; contradictions: number; logLine?(line: string): void },
): Promise<WrongSigns> => {
  const config = scorerConfig.parse({ contradictions })
  const found: WrongSigns = { long: { before: 0, after: 0 }, skipped: { wrong: 0, right: 0 } }
  let isWrong = false
  const series = await startSeries(ports, seed, {
    people: [PERSON],
    explicit: true,
    scorer: (shared) =>
      createScorer(
        {
          ...shared,
          onScored(what) {
            if (what.reason === 'contradicted') found.skipped[isWrong ? 'wrong' : 'right'] += 1
            shared.onScored?.(what)
          },
        },
        config,
      ),
  })
  const prompts = questions({ heldOut: true, split: 'evaluation', seed: 4, count: ASKED }).map(({ question }) =>
    ports.model.promptIds(
      [
        { role: 'system', content: PERSON.system },
        { role: 'user', content: question },
      ],
      {},
    ),
  )
  const longShare = async (): Promise<number> => {
    const sampling = { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 64, stop: [] }
    const { completions } = await series.evaluate({ prompts, adapter: series.head(), references: [], sampling })
    return completions.filter(({ text }) => isLong(text)).length / completions.length
  }
  const random = seeded(seed * 7 + 3)
  try {
    found.long.before = await longShare()
    for (let at = 0; at < updates; at += 1) {
      const step = await series.learn(({ text }) => {
        isWrong = chance(random, share)
        return { reward: isLong(text) === isWrong ? -1 : 1, hint: null }
      })
      logLine(`${step?.rewarded ?? 'no signal'} rewarded, ${step?.reason ?? 'accepted'}`)
    }
    found.long.after = await longShare()
    logLine(JSON.stringify(found))
    return found
  } finally {
    await series.stop()
  }
}
