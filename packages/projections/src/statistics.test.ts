/** PostgreSQL has statistics of the tables as soon as they are filled, not only after the next round of autovacuum. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { adminOf, temporaryFolder, withClient } from '../../../test/kit/database.ts'
import { longHistory, records } from '../../../test/kit/projected-history.ts'
import { startPostgres, startProjections } from './index.ts'
import { ANALYZED_FROM } from './sink.ts'

test(
  'tables are analyzed while they are filled, each time their rows have doubled',
  { timeout: 120_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    const log = openMemoryLog()
    await log.append(records([...longHistory(2 * ANALYZED_FROM)]))
    const projections = startProjections({ log, connection: server.owner, batch: 100 })
    await projections.caughtUp()
    await projections.stop()
    await withClient(server.owner, async (client) => {
      await client.query('select pg_stat_force_next_flush()')
      const { rows } = await client.query<{ relname: string; estimated: number; analyses: number; turns: number }>(
        `select c.relname, c.reltuples::int as estimated, pg_stat_get_analyze_count(c.oid)::int as analyses, (select count(*)::int from turns) as turns
       from pg_class c where c.relname in ('turns', 'all_scores', 'sessions') order by 1`,
      )
      assert.deepEqual(
        rows.map(({ relname }) => relname),
        ['all_scores', 'sessions', 'turns'],
      )
      for (const { relname, estimated } of rows) assert.ok(estimated > 0, `${relname} has statistics`)
      const { estimated, analyses, turns } = rows[2]!
      assert.ok(estimated >= turns / 3, `${estimated} of ${turns} turns`)
      assert.ok(analyses >= 2 && analyses <= 4, `${analyses} analyses`)
    })
  },
)

test(
  'a table that cannot be analyzed within the statement_timeout of the role is said once, and rows are written on',
  { timeout: 120_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    const log = openMemoryLog()
    const empty = startProjections({ log, connection: server.owner })
    await empty.caughtUp()
    await empty.stop()
    const { database, user } = server.owner
    await withClient({ ...adminOf(server.owner), database }, async (admin) => {
      await admin.query(`alter role "${user}" set statement_timeout = '1s'`)
      // Rows can be written meanwhile; an analysis waits.
      await admin.query('begin')
      await admin.query('lock table turns in share update exclusive mode')
      const history = [...longHistory(2 * ANALYZED_FROM)]
      await log.append(records(history))
      const lines: string[] = []
      const logLine = (line: string): void => void lines.push(line)
      const projections = startProjections({ log, connection: server.owner, batch: 100, logLine })
      await projections.caughtUp()
      await projections.stop()
      assert.deepEqual(lines, [
        'projections: PostgreSQL does not analyze turns, which autovacuum then does: canceling statement due to statement timeout',
      ])
      const { rows } = await admin.query<{ turns: number; analyzed: boolean }>(
        `select (select count(*)::int from turns) as turns, (select reltuples > 0 from pg_class where relname = 'all_scores') as analyzed`,
      )
      assert.ok(rows[0]!.turns > ANALYZED_FROM / 2, `${rows[0]!.turns} turns`)
      assert.equal(rows[0]!.analyzed, true)
    })
  },
)
