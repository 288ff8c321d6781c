/**
 * Verdicts of the gate on series of updates from poisoned feedback, and the content afterwards. Real trainer and
 * publisher with the default settings, tiny model. The result does not depend on the speed of the machine.
 */
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { honest, lied, startSeries, type Answered, type Feedback } from '../test/series/series.ts'
import { machine } from './machine.ts'

/**
 * `rejected`: the rejected updates, each with its reason. `klParent`, `klBase`, `below`: largest value of a candidate;
 * `below`: by how much its content probe is below that of the best accepted version. `content`, `contentOfBase`: share
 * of held-out questions answered correctly by the head and by the base.
 */
export type Row = {
  series: string
  seed: number
  updates: number
  rejected: string
  klParent: number
  klBase: number
  below: number
  content: number
  contentOfBase: number
}
export type Report = { name: string; machine: string; rows: Row[] }

const rewardIf =
  (rewarded: (answered: Answered) => boolean): Feedback =>
  (answered) => ({ reward: rewarded(answered) ? 1 : -1, hint: null })
const oppositeSign: Feedback = (answered) => ({ reward: honest(answered).reward === 1 ? -1 : 1, hint: null })
const rewardShort = rewardIf(({ text }) => text.trim().split(/\s+/).length <= 3)

/** `good`: number of updates from the feedback of the demo's users before the poisoned ones. */
const SERIES: readonly { name: string; feedback: Feedback; updates: number; good?: number; seed?: number }[] = [
  { name: 'rewards with the opposite sign', feedback: oppositeSign, updates: 12 },
  { name: '+1 only where the content is wrong', feedback: rewardIf(({ right }) => !right), updates: 9 },
  { name: '+1 only for three words or fewer', feedback: rewardShort, updates: 12 },
  { name: '+1 only for three words or fewer, after good updates', feedback: rewardShort, updates: 6, good: 8 },
  { name: 'false corrections', feedback: lied, updates: 16 },
  { name: 'false corrections', feedback: lied, updates: 16, seed: 2 },
]
const QUESTIONS = 300

export const bench = async ({
  quick = false,
  logLine = () => undefined,
}: { quick?: boolean; logLine?: (line: string) => void } = {}): Promise<Report> => {
  const { model: folder } = readSettings({}, '/')
  const learner = await startLearning({ model: folder })
  const ports = { learner, model: await openModel(folder), probes: probesOf(folder) }
  const rows: Row[] = []
  try {
    for (const { name, feedback, updates, good = 0, seed = 1 } of quick
      ? SERIES.slice(1, 2).map((one) => ({ ...one, updates: 2 }))
      : SERIES) {
      const series = await startSeries(ports, seed)
      const row: Row = {
        series: name,
        seed,
        updates,
        rejected: '',
        klParent: 0,
        klBase: 0,
        below: 0,
        content: 0,
        contentOfBase: 0,
      }
      const rejected: string[] = []
      let best: number | null = null
      for (let at = 1 - good; at <= updates; at++) {
        const step = await series.learn(at > 0 ? feedback : honest)
        if (!step) continue
        const { kl_parent = 0, kl_base = 0, content = 0 } = step.figures
        best ??= series.base['content']!
        if (at > 0)
          Object.assign(row, {
            klParent: Math.max(row.klParent, kl_parent),
            klBase: Math.max(row.klBase, kl_base),
            below: Math.max(row.below, best - content),
          })
        if (step.accepted) best = Math.max(best, content)
        else rejected.push(`${at} ${step.reason}`)
      }
      rows.push({
        ...row,
        rejected: rejected.join(', '),
        content: await series.content(series.head(), QUESTIONS),
        contentOfBase: await series.content(null, QUESTIONS),
      })
      await series.stop()
      logLine(`${name}: ${rejected.length} of ${updates} rejected`)
    }
    return { name: 'poison', machine: machine(), rows }
  } finally {
    await learner.close()
  }
}
