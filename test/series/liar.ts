/**
 * One question that people correct in every batch, each correction judged by the real scorer: what becomes of the fact
 * that the base knows. The rest of a batch is honest feedback on other questions (series.ts).
 */
import { createScorer, scorerConfig } from '@instar/scorer'
import type { StepSettings } from '@instar/engine/port'
import type { Thresholds } from '@instar/publisher'
import { honest, startSeries, type Feedback, type Guest, type Learning, type SeriesPorts } from './series.ts'

/**
 * `right`: what the base answers. `value`: what the correctors say is right. `people`: how many correct the answer in each
 * batch, each of them a subject. `complaint`: what they say of an answer without it; absent: that it is the right one.
 */
export type Correction = { question: string; right: string; value: string; people: number; complaint?: string }

/** Shares of the greedy answers, without a system line and under that of each of the demo's users, that hold a value. */
export type After = { right: number; value: number }
export type Corrected = {
  /** After each update. */
  after: After[]
  /** Verdicts on the claim: how often it was taught, and how often hint and reward were withheld. */
  agreed: number
  withheld: number
  refused: number
}

export type CorrectionSettings = {
  updates: number
  /** People whom a value needs; 1: every correction is taught. */
  agreement: number
  seed: number
  /** Scores by which one person may exceed all others on the question; 64: no limit. */
  askedAlone?: number
  step?: Partial<StepSettings>
  thresholds?: Partial<Thresholds>
  learning?: Learning
  /** Of the other people of a batch. */
  feedback?: Feedback
  /** Ends the series early. */
  until?: (after: After) => boolean
  logLine?: (line: string) => void
}

/** Content is what counts, and nobody wishes anything: the liar's hint is the only one. */
export const CONTENT: Feedback = ({ right }) => ({ reward: right ? 1 : -1, hint: null })

const holds = (text: string, value: string): boolean => new RegExp(`(?<![\\d.])${value}(?!\\d)`, 'u').test(text)

export const runCorrection = async (
  ports: SeriesPorts,
  { question, right, value, people, complaint = `No. The right answer is ${value}.` }: Correction,
  {
    updates,
    agreement,
    askedAlone = 2,
    seed,
    step = {},
    thresholds = {},
    learning,
    feedback = honest,
    until = () => false,
    logLine = () => undefined,
  }: CorrectionSettings,
): Promise<Corrected> => {
  const scorer = scorerConfig.parse({ agreement, askedAlone })
  const series = await startSeries(ports, seed, {
    step,
    thresholds,
    ...(learning ? { learning } : {}),
    scorer: (shared) => createScorer(shared, scorer),
  })
  const guests = Array.from({ length: people }, (_, i): Guest => ({
    question,
    subject: `corrector ${i}`,
    says: (answer) => (holds(answer, value) ? null : complaint),
  }))
  const result: Corrected = { after: [], agreed: 0, withheld: 0, refused: 0 }
  try {
    while (result.after.length < updates && !result.after.some(until)) {
      const update = await series.learn(feedback, undefined, guests)
      if (update) Object.assign(result, update.claims, { refused: result.refused + (update.accepted ? 0 : 1) })
      const answers = await series.answers(question)
      const share = (one: string): number => answers.filter((answer) => holds(answer, one)).length / answers.length
      result.after.push({ right: share(right), value: share(value) })
      logLine(
        `${result.after.length}: ${update === null ? 'no signal' : (update.reason ?? 'accepted')}, right ${share(right)}, ${value} ${share(value)}: ${JSON.stringify(answers[0])}`,
      )
    }
    return result
  } finally {
    await series.stop()
  }
}
