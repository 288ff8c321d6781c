/** Findings about the read model: its tables, its lag behind the log, and the unfinished work of the services. */
import { recordId } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { isCutAway } from '@instar/log'
import type { EventLog, LogRecord, Position } from '@instar/log/port'
import { countText, durationText, note, ok, unsure, wrong, type Finding } from '@instar/process/finding'
import type { DatabaseFound, Migrations, StoredMark, PendingWork } from './inspect.ts'
import { PROJECTED } from './project.ts'

export { PROJECTED }

export const NO_TABLES = 'needs the tables of this build; see migrations'

export const migrationFindings = ({ state, applied, ours }: Migrations): Finding[] => {
  if (state === 'current') return [ok(`all ${ours} migrations of this build`)]
  if (state === 'none')
    return [
      wrong('the database has no tables of Instar', 'Run `instar setup`; the projections fill them from the log.'),
    ]
  if (state === 'older')
    return [
      wrong(
        `${applied} of ${ours} migrations are applied`,
        'Run `instar setup` of this build, or start its projections: both apply the others.',
      ),
    ]
  if (applied > ours)
    return [
      wrong(
        `${countText(applied, 'migration')}, those of a newer build`,
        `Run \`instar doctor\` of that build. Projections of this build do not change the tables: they wait while newer projections run, and end if there are none.`,
      ),
    ]
  return [
    wrong(
      `${countText(applied, 'migration')} of another build`,
      'Run the projections of one build only. This build recreates the tables and fills them from the log; no record is lost.',
    ),
  ]
}

/**
 * Lag of a partition, in records. `oldest`: time of the first record that is not projected, ms since the epoch; null if
 * unknown. `otherLog`: the rows come from another log. `current`: this build wrote the rows.
 */
export type Lag = {
  topic: Topic
  partition: number
  behind: number
  oldest: number | null
  otherLog: boolean
  current: boolean
}

/** Records are normally projected within a second. */
const MAX_AGE_MS = 60_000

const total = (lags: readonly Lag[]): number => lags.reduce((sum, { behind }) => sum + behind, 0)

/** `now`: ms since the epoch. */
export const lagFindings = (lags: readonly Lag[], now: number): Finding[] => {
  if (lags.some(({ otherLog }) => otherLog))
    return [
      wrong(
        'the rows in the database come from another log',
        'Check INSTAR_LOG and DATABASE_URL. If both are right, start the projections: they empty the tables and fill them from this log.',
      ),
    ]
  if (lags.some(({ current }) => !current))
    return [
      wrong(
        'the rows were written by another build',
        'Start the projections of this build: they fill the tables again from the log.',
      ),
    ]
  const late = lags.filter(({ behind }) => behind > 0)
  if (late.length === 0) return [ok('every record of the log is in PostgreSQL')]
  const topics = [...Map.groupBy(late, ({ topic }) => topic)].map(([topic, ofTopic]) => `${topic} ${total(ofTopic)}`)
  const found = `${countText(total(late), 'record')} behind (${topics.join(', ')})`
  // A record that cannot be decoded has no time.
  const age = Math.max(0, ...late.flatMap(({ oldest }) => (oldest === null ? [] : [now - oldest])))
  if (age <= MAX_AGE_MS) return [ok(`${found}, the oldest written ${durationText(age)} ago`)]
  return [
    wrong(
      `${found}; the oldest was written ${durationText(age)} ago`,
      'Start the projections (`docker compose up -d projections`), or read their log. While they fill an empty database or wait for PostgreSQL, the lag is expected and decreases.',
    ),
  ]
}

/**
 * Compares a projection's position with the log. `end`: the next offset of the partition; `next`: the record at the
 * position; `beforeId`: id of the record before the position, null if there is none.
 */
export const lagOf = (
  mark: Pick<StoredMark, 'topic' | 'partition' | 'next' | 'last' | 'current'>,
  end: number,
  next: { timestamp: number } | undefined,
  beforeId: string | null,
): Lag => ({
  topic: mark.topic,
  partition: mark.partition,
  current: mark.current,
  behind: Math.max(0, end - mark.next),
  oldest: end > mark.next ? (next?.timestamp ?? null) : null,
  otherLog: mark.next > end || (mark.next > 0 && beforeId !== mark.last),
})

/** `maxAgeMs`: age of the oldest work beyond which it is noted. */
const WORK: Readonly<
  Record<PendingWork['what'], { singular: string; plural: string; maxAgeMs: number; todo: string }>
> = {
  scores: {
    singular: 'turn has no score yet',
    plural: 'turns have no score yet',
    maxAgeMs: 120_000,
    todo: 'The scorer is down, or its judge is slow. Check its /health/ready and its log.',
  },
  updates: {
    singular: 'sealed batch has no update yet',
    plural: 'sealed batches have no update yet',
    maxAgeMs: 900_000,
    todo: 'The trainer is down or computing. Check its /health/ready and its log.',
  },
  verdicts: {
    singular: 'update has no verdict yet',
    plural: 'updates have no verdict yet',
    maxAgeMs: 900_000,
    todo: 'The publisher is down or measuring. Check its /health/ready and its log.',
  },
}

/** Unfinished work by the read model, hence as of the last projected record. `now`: ms since the epoch. */
export const workFindings = (waiting: DatabaseFound['waiting'], now: number): Finding[] => {
  const findings = waiting.flatMap(({ what, count, since }): Finding[] => {
    if (count === 0) return []
    const { singular, plural, maxAgeMs, todo } = WORK[what]
    const age = since === null ? 0 : now - since
    const found = `${countText(count, singular, plural)}, the oldest for ${durationText(age)}`
    return [age > maxAgeMs ? note(found, todo) : ok(found)]
  })
  return findings.length > 0 ? findings : [ok('the scorer, the trainer and the publisher have no unfinished work')]
}

/** Compares the positions in the database with the end of each partition. `now`: ms since the epoch. */
export const projectionFindings = async (
  log: Pick<EventLog, 'ends' | 'at'>,
  { migrations, marks }: Pick<DatabaseFound, 'migrations' | 'marks'>,
  now: number,
): Promise<Finding[]> => {
  if (migrations.state !== 'current') return [unsure(NO_TABLES)]
  const ends = await log.ends(PROJECTED)
  const lags: Lag[] = []
  const behindCut: string[] = []
  for (const topic of PROJECTED) {
    for (const [text, end] of Object.entries(ends[topic] ?? {})) {
      const partition = Number(text)
      const mark = marks.find((one) => one.topic === topic && one.partition === partition) ?? {
        topic,
        partition,
        next: 0,
        last: '',
        current: true,
      }
      const [next, before] = await Promise.all([
        mark.next < end ? heldAt(log, { topic, partition, offset: mark.next }) : undefined,
        mark.next > 0 ? heldAt(log, { topic, partition, offset: mark.next - 1 }) : undefined,
      ])
      if (next === 'cut') behindCut.push(`${topic} ${partition}`)
      // Of a record that was cut nothing says that the rows come from another log.
      const beforeId = before === 'cut' ? mark.last : before ? recordId(before) : null
      lags.push(lagOf(mark, end, next === 'cut' ? undefined : next, beforeId))
    }
  }
  const findings = lagFindings(lags, now)
  if (behindCut.length === 0) return findings
  return [
    ...findings,
    wrong(
      `records that are not in PostgreSQL were cut from the log (${behindCut.join(', ')})`,
      'Give the projections the archive (INSTAR_ARCHIVE): they read from it what was cut.',
    ),
  ]
}

/** `cut`: the record was cut from the log. */
const heldAt = async (log: Pick<EventLog, 'at'>, position: Position): Promise<LogRecord | 'cut' | undefined> => {
  try {
    return await log.at(position)
  } catch (error) {
    if (isCutAway(error)) return 'cut'
    throw error
  }
}
