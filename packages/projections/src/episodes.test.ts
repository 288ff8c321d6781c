/** The rows of episodes, from batches that a trainer sealed, and the upgrade of a database that lacks them. */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate as apply } from 'drizzle-orm/node-postgres/migrator'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections, type DatabaseConnection, type Postgres } from './index.ts'
import { APPLIED, MIGRATIONS } from './postgres/migrate.ts'
import { temporaryFolder, withClient } from '../../../test/kit/database.ts'
import { EpisodeLine, sessionOf } from '../../../test/kit/episode-line.ts'
import { records } from '../../../test/kit/projected-history.ts'
import { OPTIONS } from '../../../test/kit/trainer-line.ts'

const SETTINGS = { ...OPTIONS, batchSize: 9, taskEpisodes: 2, settings: { turnScoreWeight: 0.5, rules: 2 } }

/** Two episodes of one task, two that are compared with no other, one that is aborted, and a conversation. */
const episodesHistory = () => {
  const line = new EpisodeLine()
  line.turns('won', [1, 1])
  line.turns('lost', [1, -1, null])
  line.turns('half', [0.5, null], { task: '' })
  line.turns('alone', [1], { task: '' })
  line.turns('aborted', [1])
  line.turns('talk', [1], { task: null })
  const closings = {
    won: line.end('won', 1),
    lost: line.end('lost', -1),
    half: line.end('half', 0.5, 5, { task: 'named' }),
    alone: line.end('alone', -1),
    aborted: line.end('aborted', null, 5, { discarded: true }),
  }
  line.end('won', -1)
  const batch = line.seal(SETTINGS, 2000)
  line.publish()
  assert.equal(batch?.items.length, 9)
  return { closings, batch, events: line.records.map(({ event }) => event) }
}

const project = async (log: MemoryLog, connection: DatabaseConnection): Promise<void> => {
  const projections = startProjections({ log, connection })
  await projections.caughtUp()
  await projections.stop()
}

const started = async (t: TestContext): Promise<Postgres> => {
  const folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(async () => {
    await postgres.stop()
    folder[Symbol.dispose]()
  })
  return postgres
}

const NAMES = `case session_id ${['won', 'lost', 'half', 'alone', 'aborted', 'talk']
  .map((name) => `when '${sessionOf(name)}' then '${name}'`)
  .join(' ')} end as name`

test('own score, outcome, its record and both parts of the advantage of each turn', { timeout: 60_000 }, async (t) => {
  const postgres = await started(t)
  const { closings, batch, events } = episodesHistory()
  const log = openMemoryLog()
  await log.append(records(events))
  await project(log, postgres.owner)
  const rows = (sql: string) => readOnlyQuery(postgres.reader, sql)

  const trained = await rows(
    `select ${NAMES}, turn_score, outcome, closing, outcome_advantage, score_advantage from version_turns where version = 1 order by turn_id`,
  )
  const byName = Map.groupBy(trained, ({ name }) => name)
  const partsOf = (name: string) =>
    byName
      .get(name)
      ?.map(({ turn_score, outcome, outcome_advantage, score_advantage }) => [
        turn_score,
        outcome,
        outcome_advantage,
        score_advantage,
      ])
  // Two episodes of a task, ±1 about their mean 0. Own scores: (s − b)/2 with b = sum/(2 + n) of a subject's first turns.
  assert.deepEqual(partsOf('won'), [
    [1, 1, 1, 0.25],
    [1, 1, 1, 0.25],
  ])
  assert.deepEqual(partsOf('lost'), [
    [1, -1, -1, 0.5],
    [-1, -1, -1, -0.5],
    [null, -1, -1, null],
  ])
  // The turn without a score of its own tells the part of the outcome. For a lone turn with both nothing does.
  const half = partsOf('half') ?? []
  assert.equal(half[0]?.[2], half[1]?.[2])
  assert.ok(Math.abs(half[0]?.[2] as number) > 0.1)
  assert.deepEqual(partsOf('alone'), [[1, -1, null, null]])
  assert.deepEqual(partsOf('talk')?.[0]?.slice(0, 3), [1, null, null])
  assert.equal(partsOf('aborted'), undefined)
  for (const name of ['won', 'lost', 'half', 'alone'] as const)
    for (const { closing } of byName.get(name) ?? []) assert.equal(closing, closings[name])
  // The parts add up to what the trainer computed.
  for (const item of batch?.items ?? []) {
    const [row] = await rows(
      `select coalesce(outcome_advantage, 0) + coalesce(score_advantage, 0) as sum, outcome_advantage, advantage from version_turns where turn_id = '${item.turn}'`,
    )
    assert.equal(row?.['advantage'], item.advantage)
    if (item.session !== sessionOf('alone')) assert.ok(Math.abs((row?.['sum'] as number) - item.advantage) < 1e-12)
  }

  assert.deepEqual(
    await rows(
      `select ${NAMES}, why, closed, discarded, outcome, task from session_closings order by record_id = '${closings.won}' desc, name`,
    ),
    [
      { name: 'won', why: 'client', closed: 1, discarded: false, outcome: 1, task: 't' },
      { name: 'aborted', why: 'client', closed: 1, discarded: true, outcome: null, task: null },
      { name: 'alone', why: 'client', closed: 1, discarded: false, outcome: -1, task: '' },
      { name: 'half', why: 'client', closed: 1, discarded: false, outcome: 0.5, task: 'named' },
      { name: 'lost', why: 'client', closed: 1, discarded: false, outcome: -1, task: 't' },
    ],
  )
  assert.deepEqual(await rows(`select ${NAMES}, turns, task, outcome, discarded from session_metrics order by name`), [
    { name: 'aborted', turns: 1, task: 't', outcome: null, discarded: true },
    { name: 'alone', turns: 1, task: '', outcome: -1, discarded: false },
    { name: 'half', turns: 2, task: 'named', outcome: 0.5, discarded: false },
    { name: 'lost', turns: 3, task: 't', outcome: -1, discarded: false },
    { name: 'talk', turns: 1, task: null, outcome: null, discarded: false },
    { name: 'won', turns: 2, task: 't', outcome: 1, discarded: false },
  ])
  assert.deepEqual(await rows(`select distinct task from turns order by task`), [
    { task: '' },
    { task: 't' },
    { task: null },
  ])
  assert.deepEqual(await rows(`select type, why from ignored where topic = 'turns'`), [
    { type: 'SessionClosed', why: 'not_open' },
  ])
})

/** The migrations of the build before episodes. */
const withoutEpisodes = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-migrations-'))
  cpSync(MIGRATIONS, folder, { recursive: true })
  const path = join(folder, 'meta/_journal.json')
  const journal = JSON.parse(readFileSync(path, 'utf8')) as { entries: { tag: string }[] }
  const entries = journal.entries.slice(
    0,
    journal.entries.findIndex(({ tag }) => tag === '0004_episodes'),
  )
  writeFileSync(path, JSON.stringify({ ...journal, entries }))
  return folder
}

test(
  'a database of the build before is filled again with the new columns, and a view of one’s own over it stays',
  { timeout: 60_000 },
  async (t) => {
    const postgres = await started(t)
    const folder = withoutEpisodes()
    t.after(() => rmSync(folder, { recursive: true }))
    const { events } = episodesHistory()
    const log = openMemoryLog()
    await log.append(records(events))
    await withClient(postgres.owner, async (client) => {
      await client.query(`drop owned by current_user cascade`)
      await apply(drizzle(client), { migrationsFolder: folder, migrationsSchema: 'public', migrationsTable: APPLIED })
      await client.query(`
        create view mine as select version, turn_id, reward from version_turns;
        insert into all_batch_turns (batch_id, turn_id, policy, used) values ('of the build before', 'x.y', 'policy', true);
        insert into offsets select topic, 0, 0, '', 2 from unnest(array['turns', 'scores', 'updates', 'weights']) topic`)
    })
    await project(log, postgres.owner)
    await withClient(postgres.owner, async (client) => {
      assert.equal((await client.query('select from mine')).rowCount, 9)
      assert.equal((await client.query('select from all_batch_turns where outcome is not null')).rowCount, 8)
      assert.equal((await client.query(`select from all_batch_turns where turn_id = 'x.y'`)).rowCount, 0)
      assert.equal((await client.query(`select from turns where task = 't'`)).rowCount, 6)
      assert.equal((await client.query('select from session_closings')).rowCount, 5)
    })
  },
)
