import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openMemoryLog } from '@instar/log'
import { readOnlyQuery, runningPostgres, startPostgres, startProjections } from '../index.ts'
import { existingPaths } from './server-paths.ts'
import { adminOf, digests, temporaryFolder, withClient } from '../../../../test/kit/database.ts'
import { longHistory, records } from '../../../../test/kit/projected-history.ts'

const OWNER = fileURLToPath(new URL('../../../../test/kit/database/owner.ts', import.meta.url))
const TURNS = 100

type Owner = { child: ChildProcess; server: number; lines: AsyncIterator<string> }

const startOwner = async (folder: string): Promise<Owner> => {
  const child = spawn(process.execPath, [OWNER, folder, String(TURNS)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const { value } = (await lines.next()) as { value: string | undefined }
  assert.match(value ?? '', /^server \d+$/)
  return { child, server: Number(value?.slice(7)), lines }
}

const kill = async (child: ChildProcess): Promise<void> => {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

let known: Promise<Record<string, string>> | undefined
/** The digests of a run without failures. */
const expected = (): Promise<Record<string, string>> => (known ??= undisturbed())

const undisturbed = async (): Promise<Record<string, string>> => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  const log = openMemoryLog()
  await log.append(records([...longHistory(TURNS)]))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const result = await digests(postgres.owner)
  await postgres.stop()
  return result
}

test(
  'after kill -9 of the owner and the server at any moment the next start gives the same rows',
  { timeout: 180_000 },
  async () => {
    using folder = temporaryFolder()
    for (let round = 0; round < 4; round++) {
      const { child, server, lines } = await startOwner(folder.path)
      for (let i = 0; i < round; i++) await lines.next()
      if (round % 2 === 1) process.kill(server, 'SIGKILL')
      await kill(child)
    }
    const { child, lines } = await startOwner(folder.path)
    for (;;) {
      const { value } = (await lines.next()) as { value: string | undefined }
      if (value === undefined || value === 'done') break
    }
    const running = await runningPostgres(folder.path)
    assert.ok(running)
    const found = await digests(running.owner)
    await kill(child)
    assert.deepEqual(found, await expected())
    // The guard stops the server whose owner has ended; this start waits for it.
    const again = await startPostgres({ folder: folder.path })
    await again.stop()
    assert.equal(await runningPostgres(folder.path), undefined)
  },
)

test('a stale lock whose process id another program has is removed', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const first = await startPostgres({ folder: folder.path })
  const paths = existingPaths(folder.path)
  assert.ok(paths)
  const lock = readFileSync(join(paths.data, 'postmaster.pid'), 'utf8')
  await first.stop()
  writeFileSync(join(paths.data, 'postmaster.pid'), lock.replace(/^\d+/, String(process.pid)))
  writeFileSync(join(paths.sockets, '.s.PGSQL.5432.lock'), `${process.pid}\n`)
  const second = await startPostgres({ folder: folder.path })
  assert.deepEqual(await readOnlyQuery(second.reader, 'select 1 as one'), [{ one: 1 }])
  await second.stop()
})

test('an interrupted initdb is repeated', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const first = await startPostgres({ folder: folder.path })
  await first.stop()
  const paths = existingPaths(folder.path)
  assert.ok(paths)
  mkdirSync(`${paths.data}.new`)
  writeFileSync(join(paths.data, 'PG_VERSION'), '9.6\n')
  const second = await startPostgres({ folder: folder.path })
  await second.stop()
  assert.equal(readFileSync(join(paths.data, 'PG_VERSION'), 'utf8'), '18\n')
  assert.equal(existsSync(`${paths.data}.new`), false)
})

test(
  'a killed server is restarted by its owner, and the projection continues with one log line',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const logLines: string[] = []
    const back = Promise.withResolvers<void>()
    const postgres = await startPostgres({
      folder: folder.path,
      logLine(line) {
        logLines.push(line)
        if (line === 'PostgreSQL is running again') back.resolve()
      },
    })
    t.after(() => postgres.stop())
    const log = openMemoryLog()
    const all = records([...longHistory(TURNS)])
    const projections = startProjections({
      log,
      connection: postgres.owner,
      logLine: (line) => logLines.push(line),
      linger: 1,
    })
    t.after(() => projections.stop())
    await log.append(all.slice(0, 120))
    await projections.caughtUp()
    const paths = existingPaths(folder.path)
    process.kill(Number(readFileSync(join(paths?.data ?? '', 'postmaster.pid'), 'utf8').split('\n')[0]), 'SIGKILL')
    await back.promise
    // No new record arrives: the projection must notice lost commits nevertheless.
    await projections.caughtUp()
    const captured = all.slice(0, 120).filter(({ schema }) => schema.startsWith('TurnCaptured.')).length
    assert.deepEqual(await readOnlyQuery(postgres.reader, 'select count(*) as n from turns'), [{ n: captured }])
    await log.append(all.slice(120))
    await projections.caughtUp()
    assert.deepEqual(await digests(postgres.owner), await expected())
    assert.equal(logLines.filter((line) => line.startsWith('PostgreSQL ended unexpectedly')).length, 1)
    assert.ok(logLines.filter((line) => line.includes('cannot write')).length <= 1)
  },
)

test('the projection waits for a PostgreSQL server that has not started yet', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const first = await startPostgres({ folder: folder.path })
  await first.stop()
  const heard = Promise.withResolvers<void>()
  const logLines: string[] = []
  const log = openMemoryLog()
  const projections = startProjections({
    log,
    connection: first.owner,
    logLine: (line) => {
      logLines.push(line)
      heard.resolve()
    },
  })
  t.after(() => projections.stop())
  await heard.promise
  const positions = await log.append(records([...longHistory(TURNS)]))
  assert.ok(positions.length > TURNS)
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  await projections.caughtUp()
  assert.deepEqual(await digests(postgres.owner), await expected())
  assert.deepEqual(
    logLines.map((line) => line.slice(0, 38)),
    ['projections: cannot write to PostgreSQ', 'projections: writing to PostgreSQL suc'],
  )
})

test('two concurrent projections of one log write each row once', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  const all = records([...longHistory(TURNS)])
  const both = [7, 11].map((batch) => startProjections({ log, connection: postgres.owner, batch, linger: 1 }))
  for (let i = 0; i < all.length; i += 100) {
    await log.append(all.slice(i, i + 100))
    await Promise.all(both.map((one) => one.caughtUp()))
  }
  await Promise.all(both.map((one) => one.stop()))
  assert.deepEqual(await digests(postgres.owner), await expected())
})

test('the reader role reads all tables, writes nothing and has a time limit', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  await log.append(records([...longHistory(20)]))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()

  await t.test('in a session of its own, whatever it sets', () =>
    withClient(postgres.reader, async (client) => {
      const refused = async (sql: string, code: string) => assert.rejects(client.query(sql), { code }, sql)
      assert.equal((await client.query('select * from version_metrics')).rows.length, 2)
      await refused('delete from turns', '25006')
      await client.query('set default_transaction_read_only = off')
      for (const sql of [
        'delete from turns',
        'update offsets set next_offset = 0',
        'truncate turns',
        'insert into lines select * from lines',
        'drop view versions',
        'create table mine (a int)',
        'create temporary table mine (a int)',
        'create schema mine',
        'select lo_create(0)',
        "copy turns to program 'cat'",
        "copy (select 1) to '/tmp/instar-reader'",
        "select pg_read_file('/etc/passwd')",
        'set role instar',
        'alter system set jit = on',
      ])
        await refused(sql, '42501')
      await client.query('set statement_timeout = 50')
      await refused('select pg_sleep(10)', '57014')
    }),
  )
  await t.test('through readOnlyQuery, also with the rights of the owner', async () => {
    for (const connection of [postgres.reader, postgres.owner]) {
      assert.deepEqual(
        await readOnlyQuery(
          connection,
          'select count(*) as turns, sum(version) as versions, 9007199254740993 as big, 0.5::numeric as half, null as none from turns',
        ),
        [{ turns: 20, versions: 4, big: '9007199254740993', half: 0.5, none: null }],
      )
      assert.deepEqual(
        await readOnlyQuery(
          connection,
          'select count(*), count(distinct session_id), 5 as count_2 from turns limit 1',
        ).then(([row]) => Object.keys(row ?? {})),
        ['count', 'count_2', 'count_2_2'],
      )
      for (const sql of [
        'delete from turns',
        'create table mine (a int)',
        'set transaction read write',
        "copy turns to program 'cat'",
      ])
        await assert.rejects(readOnlyQuery(connection, sql), { code: 'bad_sql' }, sql)
      await assert.rejects(readOnlyQuery(connection, 'commit; delete from turns'), {
        code: 'bad_sql',
        message: 'The query has more than one statement; send one statement at a time.',
      })
      await assert.rejects(readOnlyQuery(connection, 'select * from nothing'), {
        code: 'bad_sql',
        message: 'relation "nothing" does not exist',
      })
      await assert.rejects(readOnlyQuery(connection, 'select pg_sleep(10)', { timeoutMs: 50 }), {
        code: 'bad_sql',
        message: /statement timeout/,
      })
      await assert.rejects(readOnlyQuery(connection, "select repeat('x', 1000000) from generate_series(1, 1000)"), {
        code: 'bad_sql',
        message: /^The result has more than 128 MiB/,
      })
      const times =
        "select '0044-03-15 BC'::timestamptz as old, 'infinity'::timestamptz as never, '100000-01-01'::timestamptz as far"
      assert.deepEqual(await readOnlyQuery(connection, times), [
        { old: '0044-03-15 00:00:00+00 BC', never: 'infinity', far: '+100000-01-01T00:00:00.000Z' },
      ])
    }
  })
})

test('a damaged database is created anew, with a log line', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const first = await startPostgres({ folder: folder.path })
  await first.stop()
  writeFileSync(join(existingPaths(folder.path)?.data ?? '', 'global/pg_control'), 'nonsense')
  const logLines: string[] = []
  const second = await startPostgres({ folder: folder.path, logLine: (line) => logLines.push(line) })
  await second.stop()
  assert.equal(logLines.length, 1)
  assert.match(logLines[0] ?? '', /pg_control[^]*Recreating the database/)
})

test('an external server in DATABASE_URL gets the same rows', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  t.after(() => server.stop())
  await withClient(adminOf(server.owner), (client) => client.query('create database elsewhere'))
  const url = `${server.url.replace('/instar?', '/elsewhere?')}&user=postgres&password=its%20own`
  const postgres = await startPostgres({ folder: join(folder.path, 'unused'), url })
  const log = openMemoryLog()
  await log.append(records([...longHistory(TURNS)]))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  assert.deepEqual(
    await readOnlyQuery(
      postgres.reader,
      'select current_database() as here, current_user as me, count(*) as turns from turns',
    ),
    [{ here: 'elsewhere', me: 'instar_reader', turns: TURNS }],
  )
  await assert.rejects(readOnlyQuery(postgres.reader, "copy turns to program 'cat'"), { code: 'bad_sql' })
  await postgres.stop()
  assert.deepEqual(await digests(postgres.owner), await expected())
  assert.equal(existsSync(join(folder.path, 'unused')), false)
})

test('a folder too deep for a socket address gets a short, private one', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const deep = join(folder.path, 'd'.repeat(60), 'e'.repeat(60))
  const postgres = await startPostgres({ folder: deep })
  t.after(() => postgres.stop())
  const { host } = postgres.reader
  assert.ok(host && host.length < 60 && (statSync(host).mode & 0o777) === 0o700)
  assert.equal(postgres.psql, `psql "host=${host} user=instar_reader dbname=instar"`)
  assert.deepEqual(await readOnlyQuery(postgres.reader, 'select current_user as me'), [{ me: 'instar_reader' }])
})

test(
  'root can run the server in a folder that no other user may enter',
  { timeout: 60_000, skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    using folder = temporaryFolder()
    const closed = join(folder.path, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    const start = () => startPostgres({ folder: join(closed, 'postgres') })
    const first = await start()
    await withClient(first.owner, (client) => client.query('create table kept (a int)'))
    await first.stop()
    const second = await start()
    t.after(() => second.stop())
    assert.deepEqual(await readOnlyQuery(second.reader, 'select count(*) as n from kept'), [{ n: 0 }])
    const paths = existingPaths(join(closed, 'postgres'))!
    const { uid } = statSync(paths.data)
    assert.deepEqual([uid === 0, uid === 65534, uid], [false, false, paths.user?.uid])
    assert.equal(
      readFileSync('/etc/passwd', 'utf8')
        .split('\n')
        .some((line) => line.split(':')[2] === String(uid)),
      false,
    )
    assert.equal(statSync(`/proc/${readFileSync(join(paths.data, 'postmaster.pid'), 'utf8').split('\n')[0]}`).uid, uid)
  },
)

test('without PostgreSQL programs no_postgres names the setting', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  await assert.rejects(startPostgres({ folder: join(folder.path, 'a'), bin: join(folder.path, 'nowhere') }), {
    code: 'no_postgres',
    message: /INSTAR_PG_BIN is .*nowhere/,
  })
  const broken = join(folder.path, 'broken')
  mkdirSync(broken)
  for (const name of ['postgres', 'initdb']) symlinkSync('/bin/false', join(broken, name))
  await assert.rejects(startPostgres({ folder: join(folder.path, 'b'), bin: broken }), {
    code: 'no_postgres',
    message: /cannot be run on this machine/,
  })
  await assert.rejects(startPostgres({ folder: folder.path, url: 'not a url' }), { code: 'bad_request' })
  await assert.rejects(readOnlyQuery({ host: folder.path, user: 'instar' }, 'select 1'), { code: 'postgres_failed' })
})

test('INSTAR_PG_BIN may name the folder or the program', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const { postgres } = (await import('./binaries.ts')).findBinaries(
    (await import('./server-paths.ts')).makePaths(folder.path),
  )
  for (const bin of [postgres, dirname(postgres)]) {
    const server = await startPostgres({ folder: folder.path, bin })
    await server.stop()
  }
})
