/** What the page Learning shows of the newest scores and batches, from few statements: counts by interval, version, caller. */
import type { QueryRow } from '../query.ts'
import * as queries from './learning-queries.ts'
import type { Query } from './queries.ts'

type Counts = Record<string, number>
type Scored = { scored: number; skipped: number; hinted: number; reward: number | null; reasons: Counts }
/** `rewards`: how many scores lie in each fifth of −1…1. `dropped`, `used`: turns of the batches that were sealed then. */
export type TimeFigures = Scored & { at: string; judges: Counts; rewards: number[]; dropped: Counts; used: number }
/** Of the answers of a version. `dropped`, `used`: turns of the batch that made it. */
export type VersionFigures = Scored & { version: number; dropped: Counts; used: number }
/** Rewards of a person or a key over time: where each interval begins (ms since the epoch), mean reward, scores. */
export type CallerCurve = { name: string | null; points: [at: number, reward: number, scored: number][] }
export type LearningFigures = {
  /** Length of an interval, in seconds. */
  step: number
  times: TimeFigures[]
  by_version: VersionFigures[]
  judges: QueryRow[]
  /** Those with most scores first, as `scoresByCaller` has them. */
  subjects: QueryRow[]
  keys: QueryRow[]
  /** Of the first of these. */
  subject_curves: CallerCurve[]
  key_curves: CallerCurve[]
}

/** Intervals that are shown at most, and their lengths in seconds. */
const INTERVALS = 120
const STEPS = [10, 60, 300, 900, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400]

/** The shortest interval of which at most `INTERVALS` are in `ms`. */
export const stepFor = (ms: number): number =>
  STEPS.find((step) => ms / 1_000 / step <= INTERVALS) ?? Math.ceil(ms / 1_000 / INTERVALS)

const ORIGIN = Date.UTC(2000, 0, 1)
/** As `date_bin` of the statements. */
const begin = (at: string, step: number): string =>
  new Date(ORIGIN + Math.floor((Date.parse(at) - ORIGIN) / 1_000 / step) * step * 1_000).toISOString()

const text = (value: unknown): string => String(value)
const scoredOf = (): Scored => ({ scored: 0, skipped: 0, hinted: 0, reward: null, reasons: {} })

const countIn = (into: Scored, row: QueryRow): void => {
  const [count, scored] = [Number(row['count']), Number(row['scored'])]
  if (row['by'] === 'all')
    Object.assign(into, { scored, skipped: count - scored, hinted: Number(row['hinted']), reward: row['reward'] })
  else if (row['by'] === 'reason') into.reasons[text(row['name'])] = count
}

/** Throws as `rows`. One statement after the other: the pool has two connections, and pages of sessions need one. */
export const readLearning = async (
  policy: string,
  rows: (query: Query) => Promise<QueryRow[]>,
): Promise<LearningFigures> => {
  const [span] = await rows(queries.scoredSpan(policy))
  const ms = span?.['first'] ? Date.parse(text(span['last'])) - Date.parse(text(span['first'])) : 0
  const step = stepFor(ms)
  const times = new Map<string, TimeFigures>()
  const versions = new Map<number, VersionFigures>()
  const judges = new Map<string, { name: string; count: number; sum: number }>()
  const timeOf = (at: string): TimeFigures => {
    const known = times.get(at)
    if (known) return known
    const made = { at, ...scoredOf(), judges: {}, rewards: Array<number>(5).fill(0), dropped: {}, used: 0 }
    times.set(at, made)
    return made
  }
  const versionOf = (version: number): VersionFigures => {
    const known = versions.get(version)
    if (known) return known
    const made = { version, ...scoredOf(), dropped: {}, used: 0 }
    versions.set(version, made)
    return made
  }
  for (const row of await rows(queries.scoresByPart(policy, step))) {
    if (row['at'] === null) {
      countIn(versionOf(Number(row['version'])), row)
      continue
    }
    const time = timeOf(begin(text(row['at']), step))
    countIn(time, row)
    const [name, count] = [text(row['name']), Number(row['count'])]
    if (row['by'] === 'reward') time.rewards[Number(name)] = count
    if (row['by'] !== 'judge') continue
    time.judges[name] = count
    const judge = judges.get(name) ?? { name, count: 0, sum: 0 }
    judges.set(name, { name, count: judge.count + count, sum: judge.sum + Number(row['reward'] ?? 0) * count })
  }
  const first = span?.['first'] ? Date.parse(text(span['first'])) : 0
  const batches = new Set<number>()
  for (const { number, sealed_at, items, version, reason, count } of await rows(queries.dropsByBatch(policy))) {
    const into = [
      ...(Date.parse(text(sealed_at)) >= first ? [timeOf(begin(text(sealed_at), step))] : []),
      ...(version === null ? [] : [versionOf(Number(version))]),
    ]
    for (const one of into) {
      if (!batches.has(Number(number))) one.used += Number(items)
      if (reason !== null) one.dropped[text(reason)] = (one.dropped[text(reason)] ?? 0) + Number(count)
    }
    batches.add(Number(number))
  }
  const callers = await rows(queries.scoresByCaller(policy))
  const of = (by: string): QueryRow[] => callers.filter((row) => row['by'] === by).map(({ by: _, ...row }) => row)
  const subjects = of('subject')
  const keys = of('key')
  const named = (callers: QueryRow[]): (string | null)[] =>
    callers.slice(0, queries.CURVES).map(({ name }) => name as string | null)
  const [people, programs] = [named(subjects), named(keys)]
  const curves = Map.groupBy(
    await rows(
      queries.rewardsByCaller(policy, step, { subjects: people.map(text), keys: programs.map((key) => key ?? '') }),
    ),
    ({ by, name }) => `${text(by)} ${text(name)}`,
  )
  const curve = (by: string, name: string | null): CallerCurve => ({
    name,
    points: (curves.get(`${by} ${name ?? ''}`) ?? []).map(({ at, reward, scored }) => [
      Date.parse(begin(text(at), step)),
      Number(Number(reward).toFixed(4)),
      Number(scored),
    ]),
  })
  return {
    step,
    times: [...times.values()].toSorted((a, b) => a.at.localeCompare(b.at)),
    by_version: [...versions.values()].toSorted((a, b) => a.version - b.version),
    judges: [...judges.values()]
      .map(({ name, count, sum }) => ({ name, count, reward: sum / count }))
      .toSorted((a, b) => b.count - a.count),
    subjects,
    keys,
    subject_curves: people.map((name) => curve('subject', name)),
    key_curves: programs.map((name) => curve('key', name)),
  }
}
