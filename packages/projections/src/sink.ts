/**
 * Writes rows to PostgreSQL together with the new positions, in one transaction. Positions are updated by compare and
 * swap, so that each row is written once if two projections run concurrently.
 */
import { getTableColumns } from './drizzle.ts'
import { Client } from 'pg'
import { recordId } from '@instar/events/ids'
import { FLOW, type Topic } from '@instar/events/flow'
import type { EventLog } from '@instar/log/port'
import { isNewer, migrate, STILL_OURS } from './postgres/migrate.ts'
import type { DatabaseConnection } from './postgres/start.ts'
import { PROJECTED, RULES } from './project.ts'
import type { ProjectedRows } from './rows.ts'
import { TABLES, type TableName } from './schema.ts'

/** The position of a partition: the next offset to project and the id of the record before it ('' at the start). */
export type Mark = { next: number; last: string }
export type Partition = { topic: Topic; partition: number }

export const partitionKey = ({ topic, partition }: Partition): string => `${topic} ${partition}`

export type Advance = Partition & { from: Mark; to: Mark }

export type Sink = {
  /**
   * The positions in the database for this log. Empties the tables first if they are from another log or older rules.
   * Throws `NewerBuildError`.
   */
  marks(log: EventLog): Promise<Map<string, Mark>>
  /** The positions in the database without any change, and whether a newer build has migrated it. */
  readMarks(): Promise<{ newer: boolean; marks: Map<string, Mark> }>
  /** Returns false without writing if a position differs from `from`, or if a newer build has migrated the database. */
  write(rows: ProjectedRows, advances: readonly Advance[]): Promise<boolean>
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>
  close(): Promise<void>
}

const names = Object.keys(TABLES) as TableName[]

const INSERTS = new Map(
  names.map((name) => {
    const columns = Object.keys(getTableColumns(TABLES[name]))
      .map((column) => `"${column}"`)
      .join(', ')
    return [
      name,
      `insert into "${name}" (${columns}) select ${columns} from jsonb_populate_recordset(null::"${name}", $1::jsonb) on conflict do nothing`,
    ]
  }),
)

/**
 * Rows after which the tables are analyzed for the first time, then each time their number has doubled. A refill writes more in
 * a minute than autovacuum's next round waits for; without statistics the dashboard's filters read whole indexes per row.
 */
export const ANALYZED_FROM = 1_000

const NEXT_STATES = `
update turns t set next_state = r.next_state, next_turn_id = r.next_turn_id
from jsonb_populate_recordset(null::turns, $1::jsonb) r where t.turn_id = r.turn_id and t.next_state = 'open'`

const ADVANCE = `
update offsets o set next_offset = r.next_offset, last_record_id = r.last_record_id
from jsonb_to_recordset($1::jsonb) r(topic text, partition int, from_offset bigint, from_id text, next_offset bigint, last_record_id text)
where o.topic = r.topic and o.partition = r.partition and o.next_offset = r.from_offset and o.last_record_id = r.from_id and o.rules = ${RULES} and ${STILL_OURS}`

/** `logLine`: told once where the tables cannot be analyzed. */
export const openSink = async (connection: DatabaseConnection, logLine: (line: string) => void): Promise<Sink> => {
  const client = new Client({ ...connection, application_name: 'instar projections', connectionTimeoutMillis: 10_000 })
  const ended = new Promise<void>((resolve) => {
    client.once('end', resolve)
    client.on('error', () => resolve())
  })
  await client.connect()
  try {
    await migrate(client, connection.readerPassword ?? null)
    await client.query('set synchronous_commit = off')
  } catch (error) {
    await client.end()
    throw error
  }
  const inTransaction = async <T>(work: () => Promise<T>): Promise<T> => {
    await client.query('begin')
    try {
      const result = await work()
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      throw error
    }
  }
  let analyzeFailed = false
  /** Statistics make reads faster and nothing else: what has been written stays so where the role's limits do not allow them. */
  const analyze = async (): Promise<void> => {
    for (const name of names) {
      try {
        await client.query(`analyze "${name}"`)
      } catch (error) {
        if (!analyzeFailed)
          logLine(
            `projections: PostgreSQL does not analyze ${name}, which autovacuum then does: ${(error as Error).message}`,
          )
        analyzeFailed = true
      }
    }
  }
  let writtenRows = 0
  let analyzeAt = ANALYZED_FROM
  return {
    ended,
    marks: (log) => inTransaction(() => currentMarks(client, log)),
    async readMarks() {
      const { rows } = await client.query<MarkRow>('select * from offsets')
      return { newer: await isNewerDatabase(client, rows), marks: marksOf(rows) }
    },
    async write(rows, advances) {
      let swapped = true
      const work = async (): Promise<void> => {
        const { rowCount } = await client.query(ADVANCE, [
          jsonOf(
            advances.map(({ topic, partition, from, to }) => ({
              topic,
              partition,
              from_offset: from.next,
              from_id: from.last,
              next_offset: to.next,
              last_record_id: to.last,
            })),
          ),
        ])
        swapped = rowCount === advances.length
        if (!swapped) throw new MarkConflict()
        for (const [name, insert] of INSERTS) {
          if (rows[name].length > 0) await client.query({ name, text: insert, values: [jsonOf(rows[name])] })
        }
        if (rows.next_states.length > 0)
          await client.query({ name: 'next_states', text: NEXT_STATES, values: [jsonOf(rows.next_states)] })
      }
      await inTransaction(work).catch((error: unknown) => {
        if (!(error instanceof MarkConflict)) throw error
      })
      if (swapped) for (const name of names) writtenRows += rows[name].length
      if (writtenRows >= analyzeAt) {
        analyzeAt = 2 * writtenRows
        await analyze()
      }
      return swapped
    },
    close: () => client.end(),
  }
}

/** Thrown within a transaction to roll it back, since a position has changed. */
class MarkConflict extends Error {}
/** A newer build has migrated the database; this build must not write to it. */
export class NewerBuildError extends Error {}

type MarkRow = { topic: string; partition: number; next_offset: string; last_record_id: string; rules: number }

const isNewerDatabase = async (client: Client, rows: readonly MarkRow[]): Promise<boolean> =>
  rows.some(({ rules }) => rules > RULES) || isNewer(client)

const marksOf = (rows: readonly MarkRow[]): Map<string, Mark> =>
  new Map(
    rows.flatMap(({ topic, partition, next_offset, last_record_id }) =>
      isTopic(topic)
        ? [[partitionKey({ topic, partition }), { next: Number(next_offset), last: last_record_id }] as const]
        : [],
    ),
  )

const currentMarks = async (client: Client, log: EventLog): Promise<Map<string, Mark>> => {
  const stored = await client.query<MarkRow>('select * from offsets for update')
  if (await isNewerDatabase(client, stored.rows)) throw new NewerBuildError('a newer build has migrated the database')
  const partitions = PROJECTED.flatMap((topic) =>
    Array.from({ length: log.partitions(topic) }, (_, partition) => ({ topic, partition })),
  )
  await client.query(
    "insert into offsets (topic, partition, next_offset, last_record_id, rules) select topic, partition, 0, '', $2 from jsonb_populate_recordset(null::offsets, $1::jsonb) on conflict do nothing",
    [jsonOf(partitions), RULES],
  )
  const { rows } = await client.query<MarkRow>('select * from offsets for update')
  const marks = marksOf(rows)
  let valid = ofAsManyPartitions(stored.rows, log)
  for (const { topic, partition, rules } of rows)
    valid &&=
      rules === RULES &&
      isTopic(topic) &&
      (await isOnLog(log, { topic, partition }, marks.get(partitionKey({ topic, partition }))!))
  if (valid) return marks
  await client.query(`truncate ${names.map((name) => `"${name}"`).join(', ')}`)
  await client.query('delete from offsets')
  return currentMarks(client, log)
}

/** A log with another number of partitions is another log, also where the positions of single partitions match by chance. */
const ofAsManyPartitions = (rows: readonly MarkRow[], log: EventLog): boolean =>
  [...Map.groupBy(rows, ({ topic }) => topic)].every(
    ([topic, { length }]) => isTopic(topic) && log.partitions(topic) === length,
  )

const isTopic = (topic: string): topic is Topic => Object.hasOwn(FLOW, topic)

const isOnLog = async (log: EventLog, { topic, partition }: Partition, { next, last }: Mark): Promise<boolean> => {
  if (next === 0) return true
  if (partition >= log.partitions(topic)) return false
  const record = await log.at({ topic, partition, offset: next - 1 })
  return record !== undefined && recordId(record) === last
}

/** JSON without NUL and lone surrogates, which jsonb does not accept; they are replaced by U+FFFD. */
const jsonOf = (rows: readonly object[]): string => {
  const text = JSON.stringify(rows)
  if (!/\\u(?:0000|d[89a-f])/.test(text)) return text
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value,
  )
}
