import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Event } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections, type DatabaseConnection } from './index.ts'
import { digests, temporaryFolder, withClient } from '../../../test/kit/database.ts'
import { idOf, longHistory, lineStarted, records, smallHistory, T0, turn } from '../../../test/kit/projected-history.ts'

const project = async (
  log: ReturnType<typeof openMemoryLog>,
  connection: DatabaseConnection,
  batch?: number,
): Promise<void> => {
  const projections = startProjections({ log, connection, batch })
  await projections.caughtUp()
  await projections.stop()
}

test('a small history gives the expected rows', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const { a1, a2, b1, b2, s1, s2, update1, update3, events } = smallHistory()
  const log = openMemoryLog()
  await log.append(records(events))
  await project(log, postgres.owner)
  const rows = (sql: string) => readOnlyQuery(postgres.reader, sql)

  await t.test('turns have their next state', async () => {
    assert.deepEqual(
      await rows(
        'select turn_id, session_id, version, dialect, kind, label_source, status, trainable, reason, next_turn_id, prompt_tokens, completion_tokens, started_at, finished_at from turns order by started_at',
      ),
      [
        {
          turn_id: a1.turn,
          session_id: 'sa',
          version: 0,
          dialect: 'chat',
          kind: 'main',
          label_source: 'header',
          status: 'complete',
          trainable: true,
          reason: null,
          next_turn_id: a2.turn,
          prompt_tokens: 3,
          completion_tokens: 2,
          started_at: '2026-01-01T00:00:00.000Z',
          finished_at: '2026-01-01T00:00:00.120Z',
        },
        {
          turn_id: a2.turn,
          session_id: 'sa',
          version: 0,
          dialect: 'chat',
          kind: 'main',
          label_source: 'header',
          status: 'complete',
          trainable: true,
          reason: null,
          next_turn_id: null,
          prompt_tokens: 3,
          completion_tokens: 2,
          started_at: '2026-01-01T00:00:05.000Z',
          finished_at: '2026-01-01T00:00:05.120Z',
        },
        {
          turn_id: b1.turn,
          session_id: 'sb',
          version: 1,
          dialect: 'chat',
          kind: 'main',
          label_source: 'header',
          status: 'complete',
          trainable: true,
          reason: null,
          next_turn_id: null,
          prompt_tokens: 3,
          completion_tokens: 2,
          started_at: '2026-01-01T00:00:06.000Z',
          finished_at: '2026-01-01T00:00:06.240Z',
        },
        {
          turn_id: b2.turn,
          session_id: 'sb',
          version: 1,
          dialect: 'chat',
          kind: 'side',
          label_source: 'header',
          status: 'aborted',
          trainable: false,
          reason: 'side turn',
          next_turn_id: null,
          prompt_tokens: 3,
          completion_tokens: 2,
          started_at: '2026-01-01T00:00:07.000Z',
          finished_at: '2026-01-01T00:00:07.120Z',
        },
      ],
    )
    assert.deepEqual(await rows('select user_turn, agent from turns order by started_at'), [
      { user_turn: null, agent: null },
      { user_turn: 'prompt-2', agent: 'Codex' },
      { user_turn: null, agent: null },
      { user_turn: null, agent: null },
    ])
    assert.deepEqual(
      await rows('select turn_id, next_state, follows_turn_id, ttft_ms, finish from turns order by started_at'),
      [
        { turn_id: a1.turn, next_state: 'turn', follows_turn_id: null, ttft_ms: 20, finish: 'stop' },
        { turn_id: a2.turn, next_state: 'open', follows_turn_id: a1.turn, ttft_ms: 20, finish: 'stop' },
        { turn_id: b1.turn, next_state: 'none', follows_turn_id: null, ttft_ms: 40, finish: 'stop' },
        { turn_id: b2.turn, next_state: 'open', follows_turn_id: null, ttft_ms: 20, finish: 'client_gone' },
      ],
    )
  })
  await t.test('sessions and feedback have their rows', async () => {
    assert.deepEqual(await rows('select session_id, subject, first_turn_id from sessions order by 1'), [
      { session_id: 'sa', subject: 'subject-sa', first_turn_id: a1.turn },
      { session_id: 'sb', subject: 'subject-sb', first_turn_id: b1.turn },
    ])
    assert.deepEqual(await rows('select feedback_id, turn_id, value from feedback'), [
      { feedback_id: 'f1', turn_id: a2.turn, value: 1 },
    ])
    assert.deepEqual(
      await rows('select session_id, turns, side_turns, scored, reward from session_metrics order by 1'),
      [
        { session_id: 'sa', turns: 2, side_turns: 0, scored: 2, reward: 0 },
        { session_id: 'sb', turns: 1, side_turns: 1, scored: 0, reward: null },
      ],
    )
  })
  await t.test('scores have one row per turn and revision, and a branch has its own', async () => {
    assert.deepEqual(
      await rows('select turn_id, revision, reward, judge, hint, reason from scores order by at, revision'),
      [
        {
          turn_id: a1.turn,
          revision: 0,
          reward: -1,
          judge: 'signals',
          hint: 'Answer in one plain paragraph.\ufffd',
          reason: null,
        },
        { turn_id: a2.turn, revision: 0, reward: 0.5, judge: 'signals', hint: null, reason: null },
        { turn_id: a2.turn, revision: 1, reward: 1, judge: 'feedback', hint: null, reason: null },
        { turn_id: b1.turn, revision: 0, reward: null, judge: null, hint: null, reason: 'judge abstained' },
      ],
    )
    assert.deepEqual(await rows("select turn_id, revision, reward from all_scores where policy = 'policy~again'"), [
      { turn_id: a1.turn, revision: 0, reward: 0.25 },
    ])
  })
  await t.test('updates have their result', async () => {
    assert.deepEqual(
      await rows('select number, status, version, items, dropped, mean_reward, reason from updates order by number'),
      [
        { number: 1, status: 'accepted', version: 1, items: 2, dropped: 1, mean_reward: -0.25, reason: null },
        { number: 2, status: 'failed', version: null, items: 0, dropped: 0, mean_reward: null, reason: 'no signal' },
        { number: 3, status: 'accepted', version: 2, items: 0, dropped: 0, mean_reward: null, reason: null },
      ],
    )
    assert.deepEqual(await rows('select turn_id, reason from all_batch_turns where not used'), [
      { turn_id: b2.turn, reason: 'side turn' },
    ])
  })
  await t.test('versions have their turns, and one is the head', async () => {
    assert.deepEqual(await rows('select version, parent, sha256, status from versions order by version'), [
      { version: 0, parent: null, sha256: null, status: 'superseded' },
      { version: 1, parent: 0, sha256: update1.adapter, status: 'serving' },
      { version: 2, parent: 1, sha256: update3.adapter, status: 'rolled_back' },
    ])
    assert.deepEqual(await rows("select policy, version, status from all_lineage where policy <> 'policy'"), [
      { policy: 'policy~again', version: 0, status: 'replayed' },
    ])
    assert.deepEqual(await rows('select version, turn_id, score_id from version_turns order by reward'), [
      { version: 1, turn_id: a1.turn, score_id: idOf(s1) },
      { version: 1, turn_id: a2.turn, score_id: idOf(s2) },
    ])
    assert.deepEqual(await rows('select seq, from_version, to_version, froze, until from head_moves order by seq'), [
      { seq: 0, from_version: null, to_version: 0, froze: false, until: '2026-01-01T00:00:10.501Z' },
      { seq: 1, from_version: 0, to_version: 1, froze: false, until: '2026-01-01T00:00:20.000Z' },
      { seq: 2, from_version: 1, to_version: 2, froze: false, until: '2026-01-01T00:00:30.000Z' },
      { seq: 3, from_version: 2, to_version: 1, froze: true, until: null },
    ])
    assert.deepEqual(await rows('select frozen, request from all_freezes'), [{ frozen: false, request: 'thaw-1' }])
  })
  await t.test('version_metrics has the figures of each version', async () => {
    const [base, first, second] = await rows('select * from version_metrics order by version')
    assert.partialDeepStrictEqual(base, {
      version: 0,
      turns: 2,
      sessions: 1,
      scored: 2,
      skipped: 0,
      feedback: 1,
      reward: 0,
      latency_p50_ms: 120,
      ttft_p99_ms: 20,
      head_seconds: 10.501,
      trained_turns: null,
    })
    // Two scores, -1 and 1: s = √2, half the interval is 1.96·√2/√2.
    assert.ok(
      Math.abs((base?.['reward_high'] as number) - 1.96) < 1e-12 &&
        Math.abs((base?.['reward_low'] as number) + 1.96) < 1e-12,
    )
    assert.partialDeepStrictEqual(first, {
      version: 1,
      parent: 0,
      status: 'serving',
      turns: 1,
      side_turns: 1,
      aborted: 1,
      scored: 0,
      skipped: 1,
      reward: null,
      reward_low: null,
      trained_turns: 2,
      trained_reward: -0.25,
      kl_parent: 0.01,
      kl_base: 0.02,
      loss: 0.5,
      policy_loss: 0.25,
      kl_loss: 0.125,
      grad_norm: 1,
      forward_prompt_tokens: 400,
      forward_response_tokens: 40,
      teacher_tokens: 50,
      backward_prompt_tokens: 200,
      backward_response_tokens: 20,
      head_to: null,
    })
    assert.partialDeepStrictEqual(second, {
      version: 2,
      turns: 0,
      reward: null,
      head_from: '2026-01-01T00:00:20.000Z',
      head_to: '2026-01-01T00:00:30.000Z',
      head_seconds: 10,
    })
  })
  await t.test('records that do not count are in `ignored` alone', async () => {
    assert.deepEqual(await rows('select topic, key, type, why from ignored order by topic, type, why'), [
      { topic: 'scores', key: 'policy', type: 'TurnScored', why: 'outranked' },
      { topic: 'turns', key: 'sa', type: 'FeedbackGiven', why: 'unknown_turn' },
      { topic: 'turns', key: 'sb', type: 'SessionClosed', why: 'not_open' },
      { topic: 'turns', key: 'sa', type: 'TurnCaptured', why: 'repeat' },
      { topic: 'weights', key: 'policy', type: 'VersionPublished', why: 'stale' },
    ])
  })
  await t.test('no column holds text of a person', async () => {
    await withClient(postgres.owner, async (client) => {
      const { rows: tables } = await client.query<{ table_name: string }>(
        "select table_name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
      )
      for (const { table_name } of tables) {
        const { rows: found } = await client.query(
          `select 1 from "${table_name}" t where t::text like '%private words%' or t::text like '%Hello.%'`,
        )
        assert.equal(found.length, 0, table_name)
      }
    })
  })
})

test(
  'candidates that were not shown do not count as answers in metrics, and the session of a subagent names its parent',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const { a1, s1, events } = smallHistory()
    const beside: Event = {
      ...a1,
      type: 'TurnSampled',
      turn: `${a1.session}.${'9'.repeat(32)}`,
      candidate: 1,
      candidates: 2,
      finishedAt: a1.at + 60_000,
    }
    const link: Event = { type: 'SessionLinked', session: 'sb', parent: 'sa', at: T0 + 1 }
    const log = openMemoryLog()
    await log.append(
      records([
        ...events,
        beside,
        { ...s1, turn: beside.turn, reward: 1 },
        link,
        { ...link, parent: 'sx' },
        { ...link, session: 'nobody' },
      ]),
    )
    await project(log, postgres.owner)
    const rows = (sql: string) => readOnlyQuery(postgres.reader, sql)
    assert.partialDeepStrictEqual(await rows('select * from version_metrics where version = 0'), [
      { turns: 2, sessions: 1, sampled: 1, scored: 2, reward: 0, latency_p50_ms: 120 },
    ])
    assert.deepEqual(
      await rows(
        "select shown, next_state, status, group_id = (select group_id from turns where turn_id = '" +
          a1.turn +
          "') as grouped from turns where not shown",
      ),
      [{ shown: false, next_state: 'none', status: 'complete', grouped: true }],
    )
    assert.deepEqual(await rows("select turns from session_metrics where session_id = 'sa'"), [{ turns: 2 }])
    assert.deepEqual(await rows('select session_id, parent_session_id from session_links'), [
      { session_id: 'sb', parent_session_id: 'sa' },
    ])
    assert.deepEqual(await rows("select key, why from ignored where type = 'SessionLinked' order by key"), [
      { key: 'nobody', why: 'unknown_session' },
      { key: 'sb', why: 'repeat' },
    ])
  },
)

test(
  'a deleted folder is rebuilt with identical rows, in any batches, resumed at any point',
  { timeout: 120_000 },
  async () => {
    using first = temporaryFolder()
    const log = openMemoryLog()
    const all = records([...longHistory(400), ...smallHistory().events.slice(0, 9)])
    const folder = join(first.path, 'postgres')
    let postgres = await startPostgres({ folder })
    // Four runs that each continue the previous one, with the smallest batches.
    for (let i = 0; i < 4; i++) {
      await log.append(all.slice(i * 400, i === 3 ? undefined : (i + 1) * 400))
      await project(log, postgres.owner, [1, 7, 64, 500][i])
    }
    const grown = await digests(postgres.owner)
    assert.match(grown['turns'] ?? '', /^404 rows /)
    await postgres.stop()
    rmSync(folder, { recursive: true })
    postgres = await startPostgres({ folder })
    await project(log, postgres.owner)
    const rebuilt = await digests(postgres.owner)
    await postgres.stop()
    assert.deepEqual(rebuilt, grown)
  },
)

test('another record id at an offset means another log, and all tables are rebuilt', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const one = openMemoryLog()
  await one.append(
    records([lineStarted(), ...['x', 'y', 'z'].map((name) => turn({ session: 'same', name, says: name }))]),
  )
  await project(one, postgres.owner)
  const other = openMemoryLog()
  await other.append(
    records([
      lineStarted(),
      ...['p', 'q', 'r', 's'].map((name) => turn({ session: 'same', name, says: name, at: T0 + 1 })),
    ]),
  )
  await project(other, postgres.owner)
  assert.deepEqual((await readOnlyQuery(postgres.reader, 'select turn_id from turns order by 1')).length, 4)
  assert.deepEqual(
    await readOnlyQuery(postgres.reader, `select turn_id from turns where started_at = '2026-01-01 00:00:00Z'`),
    [],
  )
  const shorter = openMemoryLog()
  await shorter.append(records([lineStarted()]))
  await project(shorter, postgres.owner)
  assert.deepEqual(await readOnlyQuery(postgres.reader, 'select count(*) as n from turns'), [{ n: 0 }])
})

test(
  'a copy with another number of partitions is another log, also where a position matches by chance',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const all = records([lineStarted(), ...['x', 'y', 'z'].map((name) => turn({ session: 'f', name, says: name }))])
    // The only session is in partition 0 of both, so that every position is one of the other log too.
    const [one, other] = [1, 3].map((turns) => openMemoryLog({ partitions: { turns } }))
    await one!.append(all)
    await project(one!, postgres.owner)
    await withClient(postgres.owner, (client) => client.query("update turns set reason = 'of the old log'"))
    await other!.append(all)
    await project(other!, postgres.owner)
    assert.deepEqual(
      await readOnlyQuery(postgres.reader, "select turn_id from turns where reason = 'of the old log'"),
      [],
    )
  },
)

test('rows that are lost under a running projection are written again', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  const all = records([...longHistory(100)])
  const projections = startProjections({ log, connection: postgres.owner, linger: 1 })
  await log.append(all.slice(0, 150))
  await projections.caughtUp()
  await withClient(postgres.owner, (client) =>
    client.query(
      "begin; truncate turns, all_scores, all_versions; update offsets set next_offset = 0, last_record_id = ''; commit",
    ),
  )
  await log.append(all.slice(150))
  await projections.caughtUp()
  const disturbed = await digests(postgres.owner)
  await projections.stop()
  await withClient(postgres.owner, (client) =>
    client.query("update offsets set last_record_id = 'another' where next_offset > 0"),
  )
  await project(log, postgres.owner)
  assert.deepEqual(disturbed, await digests(postgres.owner))
})

test('tables of another build are replaced, and foreign tables are kept', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  await log.append(records([...longHistory(50)]))
  await project(log, postgres.owner)
  const before = await digests(postgres.owner)
  await withClient(postgres.owner, (client) =>
    client.query(
      `create table mine as select 1 as one; alter table turns drop column policy cascade; update instar_migrations set hash = 'another'`,
    ),
  )
  await project(log, postgres.owner)
  assert.deepEqual(await digests(postgres.owner), before)
  assert.equal((await readOnlyQuery(postgres.reader, 'select * from version_metrics, mine')).length, 4)
})

test(
  'a record with a time that no column holds is in `ignored` alone, and what follows is projected',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const log = openMemoryLog()
    const projections = startProjections({ log, connection: postgres.owner, linger: 1 })
    t.after(() => projections.stop())
    // The clock of the log is another one.
    const append = (all: ReturnType<typeof records>) => log.append(all.map((one) => ({ ...one, timestamp: T0 })))
    const valid = turn({ session: 's', name: 'x', says: 'x' })
    const times = [9e15, -9e15, 1e15, -1e14]
    await append(
      records([...times.map((at, i) => ({ ...turn({ session: `t${i}`, name: 'x', says: 'x' }), at })), valid]),
    )
    await append(
      records([
        lineStarted('policy', { at: 9e15 }),
        ...[0, 253_402_300_799_999, -62_135_596_800_000].map((at, i) => ({
          ...turn({ session: `u${i}`, name: 'x', says: 'x' }),
          at,
          firstTokenAt: at,
          finishedAt: at,
        })),
      ]),
    )
    await projections.caughtUp()
    await projections.stop()
    assert.deepEqual(await readOnlyQuery(postgres.reader, 'select key, type, why from ignored order by topic, key'), [
      ...times.map((_, i) => ({ key: `t${i}`, type: 'TurnCaptured', why: 'time_out_of_range' })),
      { key: 'policy', type: 'LineStarted', why: 'time_out_of_range' },
    ])
    assert.deepEqual(await readOnlyQuery(postgres.reader, 'select session_id from turns order by 1'), [
      { session_id: 's' },
      { session_id: 'u0' },
      { session_id: 'u1' },
      { session_id: 'u2' },
    ])
  },
)

test(
  'a record with a value that PostgreSQL rejects is in `ignored` alone, and what follows is projected',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const log = openMemoryLog()
    const projections = startProjections({ log, connection: postgres.owner, linger: 1 })
    t.after(() => projections.stop())
    const said = turn({ session: 's', name: 'x', says: 'x' })
    // Hexadecimal digits of a hash, which PostgreSQL cannot compress below its limit.
    const long = Array.from({ length: 60 }, (_, i) => idOf(turn({ session: `l${i}`, name: 'x', says: 'x' }))).join('')
    const feedback = (id: string, value: number): Event => ({
      type: 'FeedbackGiven',
      id,
      session: 's',
      turn: null,
      value,
      comment: null,
      subject: 'u',
      key: null,
      at: T0,
    })
    await log.append(
      records([
        said,
        feedback('nan', NaN),
        feedback('infinite', Infinity),
        feedback(long, 1),
        { ...turn({ session: 't', name: 'x', says: 'x' }), sampling: { ...said.sampling, temperature: -Infinity } },
        turn({ session: long, name: 'x', says: 'x' }),
        feedback('good', 0.5),
      ]),
    )
    await projections.caughtUp()
    await projections.stop()
    assert.deepEqual(await readOnlyQuery(postgres.reader, 'select why, count(*)::int from ignored group by 1'), [
      { why: 'value_out_of_range', count: 5 },
    ])
    assert.deepEqual(
      await readOnlyQuery(
        postgres.reader,
        "select (select string_agg(feedback_id, ',') from feedback) as feedback, (select string_agg(session_id, ',') from turns) as turns, (select count(*)::int from sessions) as sessions",
      ),
      [{ feedback: 'good', turns: 's', sessions: 1 }],
    )
  },
)

test('unreadable records are skipped on turns and end the projection on a chain', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  const projections = startProjections({ log, connection: postgres.owner, linger: 1 })
  await log.append([
    { topic: 'turns', key: 's', schema: 'TurnCaptured.v1', payload: Buffer.from('nonsense'), timestamp: T0 },
    ...records([turn({ session: 's', name: 'x', says: 'x' })]),
  ])
  await projections.caughtUp()
  assert.deepEqual(
    await readOnlyQuery(
      postgres.reader,
      'select topic, key, type, why, (select count(*) from turns) as turns from ignored',
    ),
    [{ topic: 'turns', key: 's', type: 'TurnCaptured.v1', why: 'unreadable', turns: 1 }],
  )
  const { events } = smallHistory()
  const [update] = events.filter((event) => event.type === 'UpdateComputed')
  assert.ok(update)
  await log.append(records([update]))
  await assert.rejects(projections.done, { code: 'log_gap' })
  await assert.rejects(projections.caughtUp())
  await projections.stop()
})

test(
  '20,000 turns are rebuilt within the stated time, and a restart writes nothing',
  { timeout: 180_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const log = openMemoryLog()
    await log.append(records([...longHistory(20_000)]))
    const started = performance.now()
    await project(log, postgres.owner)
    const seconds = (performance.now() - started) / 1000
    t.diagnostic(`20,000 turns in ${seconds.toFixed(1)} s`)
    assert.ok(seconds < 60)
    const counts =
      'select (select count(*) from turns) as turns, (select count(*) from scores) as scores, (select count(*) from versions) as versions, (select count(*) from version_turns) as trained, (select count(*) from ignored) as ignored'
    assert.deepEqual(await readOnlyQuery(postgres.reader, counts), [
      { turns: 20_000, scores: 22_000, versions: 1251, trained: 20_000, ignored: 0 },
    ])
    const written = () => readOnlyQuery(postgres.owner, 'select max(xmin::text::bigint) as last from offsets')
    const before = await written()
    await project(log, postgres.owner)
    assert.deepEqual(await written(), before)
  },
)
