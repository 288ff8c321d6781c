import assert from 'node:assert/strict'
import { chmodSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections } from '../index.ts'
import { migrate } from './migrate.ts'
import { Client } from 'pg'
import { adminOf, temporaryFolder, withClient } from '../../../../test/kit/database.ts'
import { olderCluster } from '../../../../test/kit/database/older-cluster.ts'

/** A statement that resets the role of the session, reads a file of the server and runs a program on it. */
const escape = (file: string): string => `do $$ begin
  perform set_config('role', 'none', true);
  if pg_read_file('/etc/passwd') is null then raise 'nothing'; end if;
  execute $x$copy (select 1) to program 'touch ${file}'$x$;
end $$`

test(
  'no statement of `instar sql` reads a file or runs a program of the server, embedded or with a superuser in DATABASE_URL',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    const file = join(tmpdir(), `instar-escape-${process.pid}`)
    const url = `${server.url.replace('instar@', 'postgres@')}&password=secret`
    const own = await startPostgres({ folder: folder.path, url })
    const log = openMemoryLog()
    const projections = startProjections({ log, connection: own.owner })
    await projections.caughtUp()
    await projections.stop()
    for (const connection of [server.reader, server.owner, own.reader]) {
      await assert.rejects(
        readOnlyQuery(connection, escape(file)),
        { code: 'bad_sql', message: /permission denied/ },
        connection.user,
      )
      for (const sql of [
        'set role postgres',
        'set session authorization postgres',
        'select rolpassword from pg_authid',
        'select * from pg_statistic',
      ])
        await assert.rejects(readOnlyQuery(connection, sql), { code: 'bad_sql' }, sql)
    }
    assert.equal(existsSync(file), false)
    assert.deepEqual(await readOnlyQuery(own.reader, 'select session_user as me'), [{ me: 'instar_reader' }])
    // The owner can read the tables as well, and the reader can read tables of later migrations.
    await withClient(server.owner, (client) => client.query('create table later (n int)'))
    for (const table of ['turns', 'version_metrics', 'later'])
      assert.deepEqual(await readOnlyQuery(server.reader, `select count(*) as n from ${table}`), [{ n: 0 }])
  },
)

test('a reader cannot hold an advisory lock that a migration waits for', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  t.after(() => server.stop())
  for (const sql of [
    'select pg_advisory_lock(7345120)',
    'select pg_try_advisory_lock(7345120)',
    'select pg_advisory_lock_shared(7345120)',
    'select pg_advisory_xact_lock(0, 7345120)',
  ])
    await assert.rejects(readOnlyQuery(server.reader, sql), { code: 'bad_sql', message: /permission denied/ }, sql)
})

test(
  'a migration that waits for another session ends with an error that names the session',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    await withClient(server.owner, (client) => migrate(client))
    await withClient(server.owner, async (holder) => {
      await holder.query("set application_name = 'other-session'; select pg_advisory_lock(7345120)")
      await assert.rejects(
        withClient(server.owner, (client) => migrate(client, null, 300)),
        { code: 'postgres_failed', message: /waited 0\.3 s .*instar \(pid \d+, other-session\)/ },
      )
    })
    // An open transaction of a reader blocks a migration that changes tables.
    await withClient(server.owner, (client) => client.query("update instar_migrations set hash = 'of another history'"))
    await withClient(server.reader, async (reader) => {
      await reader.query('begin; select count(*) from turns')
      await assert.rejects(
        withClient(server.owner, (client) => migrate(client, null, 300)),
        { code: 'postgres_failed', message: /instar_reader \(pid \d+/ },
      )
    })
    assert.equal(await withClient(server.owner, (client) => migrate(client, null, 300)), true)
    assert.deepEqual(await withClient(server.owner, async (client) => (await client.query('show lock_timeout')).rows), [
      { lock_timeout: '0' },
    ])
  },
)

test(
  '`instar sql` gives no_reader without a login of the reader, and never uses the session of a superuser',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    await withClient(adminOf(server.owner), (client) => client.query('alter role instar_reader nologin'))
    const own = await startPostgres({ folder: folder.path, url: server.url.replace('instar@', 'postgres@') })
    await assert.rejects(readOnlyQuery(own.reader, 'select 1'), { code: 'no_reader', message: /"postgres"/ })
    const modest = await startPostgres({ folder: folder.path, url: server.url })
    assert.deepEqual(await readOnlyQuery(modest.reader, 'select session_user as me'), [{ me: 'instar' }])
  },
)

test(
  'the role of the services owns the tables and nothing else of the embedded server',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    await withClient(server.owner, async (client) => {
      assert.deepEqual(
        (
          await client.query(
            `select rolname::text as name from pg_roles where rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls`,
          )
        ).rows,
        [{ name: 'postgres' }],
      )
      for (const sql of [
        'create role mine',
        "copy (select 1) to program 'cat'",
        "select pg_read_file('/etc/passwd')",
        'set role postgres',
      ])
        await assert.rejects(client.query(sql), { code: '42501' }, sql)
    })
  },
)

test(
  'the embedded server accepts only the operating-system user who runs Instar',
  { timeout: 60_000, skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    using folder = temporaryFolder()
    const server = await startPostgres({ folder: folder.path })
    t.after(() => server.stop())
    const sockets = server.reader.host!
    chmodSync(sockets, 0o711)
    chmodSync(join(sockets, '.s.PGSQL.5432'), 0o777)
    for (const user of ['instar_reader', 'instar', 'postgres']) {
      const client = new Client({ ...server.reader, user })
      client.on('error', () => undefined)
      process.seteuid!(65534)
      const connecting = client.connect()
      process.seteuid!(0)
      await assert.rejects(connecting, { code: '28000' }, user)
    }
  },
)

test(
  'a cluster of an older build gets its roles in place, also after an interruption at any point',
  { timeout: 120_000 },
  async (t) => {
    for (const cut of ['not', 'role', 'rename'] as const) {
      using folder = temporaryFolder()
      await olderCluster(folder.path, cut)
      const server = await startPostgres({ folder: folder.path })
      try {
        assert.deepEqual(await readOnlyQuery(server.reader, 'select a from kept'), [{ a: 7 }], cut)
        await withClient(server.owner, async (client) => {
          await client.query(
            'insert into kept (b) select one from kept_view; drop view kept_view; drop table kept; drop schema mine cascade; drop function give()',
          )
          assert.deepEqual(
            (
              await client.query(
                "select rolname::text as name, rolsuper as all from pg_roles where rolname !~ '^pg_' order by 1",
              )
            ).rows,
            [
              { name: 'instar', all: false },
              { name: 'instar_reader', all: false },
              { name: 'postgres', all: true },
            ],
          )
          await assert.rejects(client.query("copy (select 1) to program 'cat'"), { code: '42501' })
        })
        await assert.rejects(readOnlyQuery(server.reader, escape('/tmp/never')), { code: 'bad_sql' })
      } finally {
        await server.stop()
      }
      t.diagnostic(`cut off: ${cut}`)
    }
  },
)
