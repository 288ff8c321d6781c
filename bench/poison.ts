/**
 * What the gate lets pass: series of updates from poisoned feedback through the real trainer and publisher at the settings
 * that ship, the tiny model, and what is left of the content. Not a matter of speed, but of minutes.
 */
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { honest, lied, startSeries, type Answered, type Feedback } from '../test/flow/series.ts'
import { machine } from './machine.ts'

/** `refused`: which updates, with the figure that refused them. `klParent`, `klBase`, `below`: the largest of any candidate; `below`: of the content probe below the best accepted. */
export type Row = {
  series: string
  seed: number
  updates: number
  refused: string
  klParent: number
  klBase: number
  below: number
  content: number
  contentOfBase: number
}
export type Report = { name: string; machine: string; rows: Row[] }

const praising =
  (praised: (answered: Answered) => boolean): Feedback =>
  (answered) => ({ reward: praised(answered) ? 1 : -1, hint: null })
const otherSign: Feedback = (answered) => ({ reward: honest(answered).reward === 1 ? -1 : 1, hint: null })
const terse = praising(({ text }) => text.trim().split(/\s+/).length <= 3)

/** `good`: updates from what the demo's people say, before. */
const SERIES: readonly { name: string; feedback: Feedback; updates: number; good?: number; seed?: number }[] = [
  { name: 'rewards with the other sign', feedback: otherSign, updates: 12 },
  { name: '+1 only where the content is wrong', feedback: praising(({ right }) => !right), updates: 9 },
  { name: '+1 only for three words or fewer', feedback: terse, updates: 12 },
  { name: 'the same after good ones', feedback: terse, updates: 6, good: 8 },
  { name: 'lies', feedback: lied, updates: 16 },
  { name: 'lies', feedback: lied, updates: 16, seed: 2 },
]
const QUESTIONS = 300

export const bench = async ({
  quick = false,
  say = () => undefined,
}: { quick?: boolean; say?: (line: string) => void } = {}): Promise<Report> => {
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
        refused: '',
        klParent: 0,
        klBase: 0,
        below: 0,
        content: 0,
        contentOfBase: 0,
      }
      const refused: string[] = []
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
        else refused.push(`${at} ${step.reason}`)
      }
      rows.push({
        ...row,
        refused: refused.join(', '),
        content: await series.content(series.head(), QUESTIONS),
        contentOfBase: await series.content(null, QUESTIONS),
      })
      await series.stop()
      say(`${name}: ${refused.length} of ${updates} refused`)
    }
    return { name: 'poison', machine: machine(), rows }
  } finally {
    await learner.close()
  }
}
