/**
 * A database that a newer build has migrated: this build does not write to it, waits while it is kept up to date, and
 * fails otherwise.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import { startPostgres, startProjections, type DatabaseConnection, type Postgres } from './index.ts'
import { setupDatabase } from './postgres/setup.ts'
import type { Client } from 'pg'
import { digests, temporaryFolder, withClient } from '../../../test/kit/database.ts'
import { longHistory, records } from '../../../test/kit/projected-history.ts'

/** Adds a migration of a newer build. */
const newerMigration = (client: Client): Promise<unknown> =>
  client.query(
    `alter table turns add column mood text; insert into instar_migrations (hash, created_at) values ('of a later build', 9999999999999)`,
  )
const takenBack = (client: Client): Promise<unknown> =>
  client.query(`alter table turns drop column mood; delete from instar_migrations where hash = 'of a later build'`)
const moods = (connection: DatabaseConnection): Promise<number> =>
  withClient(
    connection,
    async (client) =>
      (await client.query(`select from information_schema.columns where table_name = 'turns' and column_name = 'mood'`))
        .rowCount ?? 0,
  )
const turns = (connection: DatabaseConnection): Promise<number> =>
  withClient(connection, async (client) =>
    Number((await client.query<{ n: string }>('select count(*) as n from turns')).rows[0]!.n),
  )

/** Advances the positions, as the projections of a newer build do. */
const advancePositions = async (connection: DatabaseConnection, log: MemoryLog): Promise<void> => {
  const ends = await log.ends(['turns', 'scores', 'updates', 'weights'])
  await withClient(connection, async (client) => {
    for (const [topic, partitions] of Object.entries(ends)) {
      for (const [partition, end] of Object.entries(partitions))
        await client.query('update offsets set next_offset = $3 where topic = $1 and partition = $2', [
          topic,
          partition,
          end,
        ])
    }
  })
}

const HISTORY = [...longHistory(40)]
const HALF = Math.floor(HISTORY.length / 2)

const filled = async (folder: string): Promise<{ postgres: Postgres; log: MemoryLog }> => {
  const postgres = await startPostgres({ folder })
  const log = openMemoryLog()
  await log.append(records(HISTORY.slice(0, HALF)))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  return { postgres, log }
}

test(
  'tables of later migrations are neither dropped nor written, and where no process fills them this one ends',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const { postgres, log } = await filled(folder.path)
    t.after(() => postgres.stop())
    await withClient(postgres.owner, newerMigration)
    const before = await digests(postgres.owner)
    const logLines: string[] = []
    const projections = startProjections({
      log,
      connection: postgres.owner,
      logLine: (line) => logLines.push(line),
      patience: 200,
    })
    await projections.caughtUp()
    assert.match(logLines.join(), /newer build/)
    await log.append(records(HISTORY.slice(HALF)))
    await assert.rejects(projections.done, (error) => error instanceof InstarError && error.code === 'database_newer')
    assert.equal(await moods(postgres.owner), 1)
    assert.deepEqual(await digests(postgres.owner), before)
  },
)

test(
  'an older projection stops writing, is up to date when the newer one is, and resumes when it is gone',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const { postgres, log } = await filled(folder.path)
    t.after(() => postgres.stop())
    const projections = startProjections({ log, connection: postgres.owner, linger: 1, patience: 30_000 })
    t.after(() => projections.stop())
    await projections.caughtUp()
    const before = await turns(postgres.owner)
    await withClient(postgres.owner, newerMigration)
    await log.append(records(HISTORY.slice(HALF)))
    const caughtUp = projections.caughtUp()
    assert.equal(await Promise.race([caughtUp, new Promise((resolve) => setTimeout(resolve, 1_000, 'waits'))]), 'waits')
    assert.equal(await turns(postgres.owner), before)
    await advancePositions(postgres.owner, log)
    await caughtUp
    assert.equal(await turns(postgres.owner), before)
    // Positions without rows, as in a database that was recreated.
    await withClient(postgres.owner, async (client) => {
      await takenBack(client)
      await client.query(`update offsets set next_offset = 0, last_record_id = ''`)
    })
    for (const until = Date.now() + 20_000; (await turns(postgres.owner)) === before;)
      assert.ok(Date.now() < until, 'the projection did not continue')
    await projections.caughtUp()
    assert.ok((await turns(postgres.owner)) > before)
  },
)

test('rows of a newer build are not deleted', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const { postgres, log } = await filled(folder.path)
  t.after(() => postgres.stop())
  await withClient(postgres.owner, (client) => client.query('update offsets set rules = rules + 1'))
  const before = await digests(postgres.owner)
  const projections = startProjections({ log, connection: postgres.owner, patience: 200 })
  await projections.caughtUp()
  await log.append(records(HISTORY.slice(HALF)))
  await assert.rejects(projections.done, (error) => error instanceof InstarError && error.code === 'database_newer')
  assert.deepEqual(await digests(postgres.owner), before)
})

test('the setup of an older build leaves a newer database unchanged', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const { postgres } = await filled(folder.path)
  t.after(() => postgres.stop())
  await withClient(postgres.owner, newerMigration)
  const { host, port, user, password, database } = postgres.owner as {
    host: string
    port: number
    user: string
    password?: string
    database: string
  }
  const socket = host.startsWith('/')
  await setupDatabase(
    `postgres://${user}${password === undefined ? '' : `:${encodeURIComponent(password)}`}@${socket ? '' : host}${socket ? '' : `:${port}`}/${database}${socket ? `?host=${encodeURIComponent(host)}&port=${port}` : ''}`,
  )
  assert.equal(await moods(postgres.owner), 1)
})
