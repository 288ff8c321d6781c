/** The connections of the dashboard: they read, each statement within its time, and write nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { InstarError } from '@instar/events/errors'
import { openMemoryLog } from '@instar/log'
import { startPostgres, startProjections } from '../index.ts'
import { temporaryFolder } from '../../../../test/kit/database.ts'
import { records, smallHistory } from '../../../../test/kit/projected-history.ts'
import { startRig, USER } from '../../../../test/kit/gateway.ts'
import { openReadModel } from './read-model.ts'
import { openReaderPool } from './reader-pool.ts'

const failed =
  (message: RegExp) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === 'postgres_failed' && message.test(error.message)

test('the connections of the dashboard cannot write', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  await log.append(records(smallHistory().events))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const writes = [
    `update all_scores set reward = 1`,
    `delete from turns`,
    `insert into lines select * from lines`,
    `truncate all_versions`,
    `create table mine (id int)`,
    `drop table turns`,
  ]
  const pool = openReaderPool(postgres.reader)
  // As where the server refuses the reader's login: the owner's rights in read-only sessions.
  const { fallback: _, ...reader } = postgres.reader
  const owner = openReaderPool({ ...reader, user: 'nobody', password: 'none', fallback: postgres.owner })
  t.after(() => Promise.all([pool.close(), owner.close()]))
  const [before] = await pool.rows('select count(*)::int as turns from turns', [])
  assert.ok(Number(before!['turns']) > 0)
  for (const sql of writes) {
    await assert.rejects(pool.rows(sql, []), failed(/read-only transaction|permission denied|must be owner/), sql)
    await assert.rejects(owner.rows(sql, []), failed(/read-only transaction/), sql)
  }
  // The reader's role lacks the rights, whatever its session says.
  await pool.rows(`set default_transaction_read_only = off`, [])
  for (const sql of writes)
    await assert.rejects(pool.rows(sql, []), failed(/permission denied|must be owner|read-only/), sql)
  assert.deepEqual(await pool.rows('select count(*)::int as turns from turns', []), [before])
})

test('a statement that takes too long ends, while the gateway goes on serving', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const limits = { lineage: 10, older: 5, statementMs: 300 }
  const model = openReadModel(postgres.reader, 'policy', () => performance.now(), limits)
  t.after(() => model.close())
  const rig = await startRig({ ports: { readModel: model } })
  t.after(() => rig.stop())
  const owner = new pg.Client(postgres.owner)
  owner.on('error', () => undefined)
  await owner.connect()
  t.after(() => owner.end())
  // What each of the statements waits for.
  await owner.query('begin')
  await owner.query('lock table all_batches, sessions, turns in access exclusive mode')
  const asked = ['versions', 'sessions', 'sessions/x', 'turns/x', 'learning', 'versions']
  const slow = Promise.all(asked.map((path) => rig.fetch(`/v1/dashboard/${path}`)))
  for (let n = 0; n < 5; n += 1) {
    const answer = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER(`Hi ${n}`)] } })
    assert.equal(answer.status, 200)
    await answer.text()
  }
  for (const response of await slow) {
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    assert.equal(error.code, 'postgres_failed')
    assert.match(error.message, /statement timeout|timeout exceeded|Query read timeout/)
  }
  assert.equal((await rig.fetch('/v1/dashboard/now')).status, 200)
  // No statement is left that waits: this ends.
  const waiting = async (): Promise<number> =>
    Number((await owner.query(`select count(*)::int as waiting from pg_locks where not granted`)).rows[0].waiting)
  while ((await waiting()) > 0);
  await owner.query('rollback')
  for (const path of ['versions', 'sessions'])
    assert.equal((await rig.fetch(`/v1/dashboard/${path}`)).status, 200, path)
})
