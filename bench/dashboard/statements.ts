/** Every statement of the dashboard under `explain analyze`: its time, and the tables that it reads from end to end. */
import { Client } from 'pg'
import * as learning from '../../packages/projections/src/dashboard/learning-queries.ts'
import * as queries from '../../packages/projections/src/dashboard/queries.ts'
import { median } from '../machine.ts'

/** `cached`: at most one in ten seconds, for all pages; the others run for each request. `whole`: tables read whole. */
export type Statement = { statement: string; cached: boolean; ms: number; rows: number; whole: string }

type Plan = {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: Plan[]
}
type Explained = { 'QUERY PLAN': [{ Plan: Plan; 'Execution Time': number; 'Planning Time': number }] }

/** A filter whose reason and agent are of many turns. */
const COMMON = { reason: false, agent: false }

/** Rows from which on a table counts as read whole: smaller ones are cheaper to scan than to look up. */
const LARGE = 5_000
const TIMES = 5

const scans = (plan: Plan): string[] => [
  ...(plan['Node Type'] === 'Seq Scan' &&
  (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops'] >= LARGE
    ? [plan['Relation Name'] ?? '']
    : []),
  ...(plan.Plans ?? []).flatMap(scans),
]

export const statements = async (connection: object): Promise<Statement[]> => {
  const client = new Client(connection)
  await client.connect()
  try {
    const first = async (sql: string): Promise<Record<string, unknown>> => (await client.query(sql)).rows[0]!
    const middle = await first(
      `select session_id, subject, started_at::text as at from sessions order by started_at offset (select 2 * count(*) / 3 from sessions) limit 1`,
    )
    const turn = await first(`select turn_id, group_id from turns where session_id = '${String(middle['session_id'])}'`)
    const [session, id] = [String(middle['session_id']), String(turn['turn_id'])]
    const all: [name: string, cached: boolean, query: queries.Query][] = [
      ['versions: facts', true, queries.versionFacts('policy')],
      ['versions: sizes', true, queries.versionSizes('policy')],
      [
        'versions: counts of 40',
        true,
        queries.versionCounts(
          'policy',
          Array.from({ length: 40 }, (_, i) => 200 + i),
        ),
      ],
      ['versions/V: figures', false, queries.versionFigures('policy', 250)],
      ['versions: updates', true, queries.updates('policy')],
      ['versions: moves', true, queries.moves('policy')],
      ['versions: freezes', true, queries.freezes('policy')],
      ['learning: span', true, learning.scoredSpan('policy')],
      ['learning: by interval and version', true, learning.scoresByPart('policy', 21_600)],
      ['learning: dropped', true, learning.dropsByBatch('policy')],
      ['learning: by person and key', true, learning.scoresByCaller('policy')],
      ['versions/V: batch', false, queries.batchTurns('policy', 250)],
      ['sessions', false, queries.sessions('policy', {}, null)],
      ['sessions: next page', false, queries.sessions('policy', {}, { at: String(middle['at']), id: session })],
      ['sessions: of a person', false, queries.sessions('policy', { subject: String(middle['subject']) }, null)],
      ['sessions: of a version', false, queries.sessions('policy', { version: 3 }, null)],
      ['sessions: of a dialect', false, queries.sessions('policy', { dialect: 'messages' }, null)],
      ['sessions: bad reward', false, queries.sessions('policy', { reward: 'negative' }, null)],
      ['sessions: no score', false, queries.sessions('policy', { reward: 'none' }, null)],
      ['sessions: of a common reason', false, queries.sessions('policy', { reason: 'duplicate' }, null, COMMON)],
      ['sessions: of a common agent', false, queries.sessions('policy', { agent: 'unknown' }, null, COMMON)],
      ['sessions: of a rare agent', false, queries.sessions('policy', { agent: 'pi' }, null)],
      ['sessions: size of an agent', false, queries.agentSize('policy', 'unknown')],
      ['sessions: size of a reason', false, queries.reasonSize('policy', 'duplicate')],
      ['sessions: a reason that none has', false, queries.sessions('policy', { reason: 'greedy' }, null)],
      ['sessions: a person that none is', false, queries.sessions('policy', { subject: 'nobody' }, null)],
      ['sessions: by id', false, queries.sessions('policy', { id: session.slice(0, 12) }, null)],
      ['sessions: by turn id', false, queries.sessions('policy', { id: id.slice(0, 40) }, null)],
      ['sessions/ID', false, queries.session('policy', session)],
      ['sessions/ID: turns', false, queries.sessionTurns('policy', session, null)],
      ['turns/ID', false, queries.turn('policy', id)],
      ['turns/ID: candidates', false, queries.group('policy', session, String(turn['group_id']))],
    ]
    const found: Statement[] = []
    for (const [statement, cached, { sql, values }] of all) {
      const runs: number[] = []
      let plan: Plan | null = null
      for (let time = 0; time < TIMES; time++) {
        const { rows } = await client.query<Explained>(`explain (analyze, format json) ${sql}`, [...values])
        const [explained] = rows[0]!['QUERY PLAN']
        plan = explained.Plan
        runs.push(explained['Planning Time'] + explained['Execution Time'])
      }
      found.push({
        statement,
        cached,
        ms: median(runs),
        rows: plan!['Actual Rows'],
        whole: [...new Set(scans(plan!))].join(' '),
      })
    }
    return found
  } finally {
    await client.end()
  }
}
