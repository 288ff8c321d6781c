/** Whether the baselines and advantages of a batch are right, computed from its own scores and outcomes alone. */
import type { BatchItem, BatchSealed } from '@instar/events'
import type { Batch } from './chains.ts'
import type { Past } from './past.ts'

type Says = (holds: boolean, problem: string) => void
type Observed = { subject: string; value: number }
type Items = readonly BatchItem[]

const EVERYONE = ''
/** Before the name of a mean of outcomes. */
const OUTCOME = 'outcome '

const scoresIn = (items: Items): Observed[] =>
  items.flatMap(({ subject, reward, turnScore = null, outcome = null }) =>
    outcome === null ? [{ subject, value: reward }] : turnScore === null ? [] : [{ subject, value: turnScore }],
  )

const episodesIn = (items: Items): BatchItem[] =>
  [
    ...Map.groupBy(
      items.filter(({ outcome }) => (outcome ?? null) !== null),
      ({ session }) => session,
    ).values(),
  ].map(([first]) => first!)
const outcomesIn = (items: Items): Observed[] =>
  episodesIn(items).map(({ subject, outcome }) => ({ subject, value: outcome ?? 0 }))

const sum = (values: readonly Observed[]): number => values.reduce((total, { value }) => total + value, 0)
const moved = (mean: number, values: readonly Observed[]): number =>
  values.reduce((at, { value }) => 0.9 * at + 0.1 * value, mean)

/** The mean of each subject at the start of a batch. `prefix`: of the names. */
const means = (before: ReadonlyMap<string, number>, observed: readonly Observed[], prefix = ''): Map<string, number> =>
  new Map(
    [...Map.groupBy(observed, ({ subject }) => subject)].map(([subject, own]) => [
      subject,
      before.get(prefix + subject) ?? (2 * (before.get(prefix + EVERYONE) ?? 0) + sum(own)) / (2 + own.length),
    ]),
  )

/** The means after these batches. */
const meansAfter = (batches: readonly { items: Items }[]): Map<string, number> => {
  const after = new Map<string, number>()
  for (const { items } of batches) {
    const before = new Map(after)
    for (const [prefix, observed] of [
      ['', scoresIn(items)],
      [OUTCOME, outcomesIn(items)],
    ] as const) {
      if (prefix !== '' && observed.length === 0) continue
      for (const [subject, mean] of means(before, observed, prefix))
        after.set(
          prefix + subject,
          moved(
            mean,
            observed.filter((one) => one.subject === subject),
          ),
        )
      after.set(prefix + EVERYONE, moved(before.get(prefix + EVERYONE) ?? 0, observed))
    }
  }
  return after
}

export const rightValues = (
  past: Past,
  event: BatchSealed,
  batches: readonly Batch[],
  { turnScoreWeight }: { turnScoreWeight: number },
  says: Says,
): void => {
  const { items, number } = event
  const before = meansAfter(batches.map(({ sealed }) => sealed))
  const scores = means(before, scoresIn(items))
  const outcomes = means(before, outcomesIn(items), OUTCOME)
  const near = (a: number, b: number): boolean => Math.abs(a - b) < 1e-9
  const mean = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0) / values.length
  const groupOf = (turn: string): string | undefined => past.turn(turn)?.event.group
  const baselineOf = ({ turn, session, subject, turnScore = null, outcome = null }: BatchItem): number => {
    if (outcome === null) {
      const group = items.filter((other) => (other.outcome ?? null) === null && groupOf(other.turn) === groupOf(turn))
      return group.length > 1 ? mean(group.map(({ reward }) => reward)) : scores.get(subject)!
    }
    const { task } = past.session(session)
    const others = episodesIn(items).filter((one) => task !== '' && past.session(one.session).task === task)
    const own = turnScore === null ? 0 : turnScoreWeight * scores.get(subject)!
    return own + (others.length > 1 ? mean(others.map((one) => one.outcome ?? 0)) : outcomes.get(subject)!)
  }
  for (const item of items) {
    const expected = baselineOf(item)
    says(
      near(item.baseline, expected) && near(item.advantage, item.reward - expected),
      `batch ${number} compares ${item.turn} with ${item.baseline}, not ${expected}`,
    )
  }
  const after = meansAfter([...batches.map(({ sealed }) => sealed), event])
  for (const { subject, value } of event.baselines)
    says(
      near(value, after.get(subject) ?? Number.NaN),
      `batch ${number} leaves ${subject} at ${value}, not ${after.get(subject)}`,
    )
  const names = [...scores.keys(), EVERYONE, ...[...outcomes.keys()].map((subject) => OUTCOME + subject)]
  says(
    names.every((name) => event.baselines.some(({ subject }) => subject === name)),
    `batch ${number} forgets a subject`,
  )
}
