/** The read model: its tables, how far it is behind the log, what the services have not done yet. */
import type { Topic } from '@instar/events/flow'
import type { DatabaseFound, Migrations, StoredMark, PendingWork } from '@instar/projections'
import { counted, duration, fine, note, wrong, type Finding } from './finding.ts'

export const migrationsFound = ({ state, applied, ours }: Migrations): Finding[] => {
  if (state === 'current') return [fine(`all ${ours} migrations of this build`)]
  if (state === 'none')
    return [
      wrong('the database holds no tables of ours', 'Run `instar setup`; the projections fill them from the log.'),
    ]
  if (state === 'older')
    return [
      wrong(
        `${applied} of ${ours} migrations are applied`,
        'Run `instar setup` of this build, or start its projections: both bring the tables up to it.',
      ),
    ]
  if (applied > ours)
    return [
      wrong(
        `${counted(applied, 'migration')}, those of a newer build`,
        `Look with that build's \`instar doctor\`. Projections of this build leave the tables alone: they stand by while the newer ones fill them, and end where nobody does.`,
      ),
    ]
  return [
    wrong(
      `${counted(applied, 'migration')} of another build`,
      'Start the projections of one build only. This build makes the tables anew and fills them from the log, which costs time, nothing else.',
    ),
  ]
}

/**
 * How far a partition of the log goes beyond what is projected. `oldest`: time of the first record that is not, ms
 * since the epoch. `other`: the record before the mark is another one.
 */
export type Lag = {
  topic: Topic
  partition: number
  behind: number
  oldest: number | null
  other: boolean
  current: boolean
}

/** Records are projected within a fraction of a second. */
const PATIENT_MS = 60_000

export const lagFound = (lags: readonly Lag[], now: number): Finding[] => {
  if (lags.some(({ other }) => other))
    return [
      wrong(
        'the database was filled from another log',
        'Check INSTAR_LOG and DATABASE_URL. If both are meant, start the projections: they empty the tables and fill them from this log.',
      ),
    ]
  if (lags.some(({ current }) => !current))
    return [
      wrong(
        'rows were written by the rules of another build',
        'Start the projections of this build: they fill the tables anew from the log.',
      ),
    ]
  const late = lags.filter(({ behind }) => behind > 0)
  if (late.length === 0) return [fine('every record of the log is in PostgreSQL')]
  const said = `${counted(
    late.reduce((sum, { behind }) => sum + behind, 0),
    'record',
  )} behind (${[...Map.groupBy(late, ({ topic }) => topic)].map(([topic, of]) => `${topic} ${of.reduce((sum, { behind }) => sum + behind, 0)}`).join(', ')})`
  // A partition may wait at a record that nobody can read, which has no time.
  const age = Math.max(0, ...late.flatMap(({ oldest }) => (oldest === null ? [] : [now - oldest])))
  if (age <= PATIENT_MS) return [fine(`${said}, the oldest written ${duration(age)} ago`)]
  return [
    wrong(
      `${said}; the oldest was written ${duration(age)} ago`,
      'Start the projections (`docker compose up -d projections`), or look at what they say: while they fill an empty database, or wait for PostgreSQL, this is normal and falls.',
    ),
  ]
}

/**
 * Where marks and log meet. `ends`: the next offset of each partition; `first`: what stands at a mark; `before`: the
 * id of the record before it, null if there is none.
 */
export const lagOf = (
  mark: Pick<StoredMark, 'topic' | 'partition' | 'next' | 'last' | 'current'>,
  end: number,
  first: { timestamp: number } | undefined,
  before: string | null,
): Lag => ({
  topic: mark.topic,
  partition: mark.partition,
  current: mark.current,
  behind: Math.max(0, end - mark.next),
  oldest: end > mark.next ? (first?.timestamp ?? null) : null,
  other: mark.next > end || (mark.next > 0 && before !== mark.last),
})

const WAITS: Readonly<Record<PendingWork['what'], { one: string; many: string; patientMs: number; todo: string }>> = {
  scores: {
    one: 'turn waits for its score',
    many: 'turns wait for their scores',
    patientMs: 120_000,
    todo: 'The scorer is away, or its judge is slow: see its /health/ready and what it logs.',
  },
  updates: {
    one: 'sealed batch waits for its update',
    many: 'sealed batches wait for their updates',
    patientMs: 900_000,
    todo: 'The trainer is away or at work: see its /health/ready and what it logs.',
  },
  verdicts: {
    one: 'update waits for its verdict',
    many: 'updates wait for their verdicts',
    patientMs: 900_000,
    todo: 'The publisher is away or at work: see its /health/ready and what it logs.',
  },
}

/** From the read model, so as of what is projected. */
export const waitingFound = (waiting: DatabaseFound['waiting'], now: number): Finding[] => {
  const said = waiting.flatMap(({ what, count, since }): Finding[] => {
    if (count === 0) return []
    const { one, many, patientMs, todo } = WAITS[what]
    const age = since === null ? 0 : now - since
    const found = `${count} ${count === 1 ? one : many}, the oldest for ${duration(age)}`
    return [age > patientMs ? note(found, todo) : fine(found)]
  })
  return said.length > 0 ? said : [fine('nothing waits for the scorer, the trainer or the publisher')]
}
