import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Event, TurnAborted, TurnCaptured } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections } from '../index.ts'
import { dashboardHistory } from '../../../../bench/dashboard/history.ts'
import { temporaryFolder } from '../../../../test/kit/database.ts'
import { records, smallHistory } from '../../../../test/kit/projected-history.ts'
import * as queries from './queries.ts'
import { openReadModel } from './read-model.ts'
import { openReaderPool } from './reader-pool.ts'
import { VersionMetrics } from './version-metrics.ts'

const parts = ({ sql, values }: queries.Query): [string, readonly unknown[]] => [sql, values]

test('the read model answers each page of the dashboard', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const { a1, a2, events } = smallHistory()
  const log = openMemoryLog()
  await log.append(records(events))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const model = openReadModel(postgres.reader, 'policy', () => performance.now())
  t.after(() => model.close())

  const ids = async (filter: Parameters<typeof model.sessions>[0]): Promise<unknown[]> =>
    (await model.sessions(filter, null)).rows.map((row) => row['session_id'])
  const all = await ids({})
  assert.ok(all.includes('sa') && all.includes('sb'), String(all))
  const [first] = all
  const { rows } = await model.sessions({}, null)
  const { started_at: at, session_id: id } = rows[0]!
  const rest = await model.sessions({}, { at: String(at), id: String(id) })
  assert.deepEqual(
    rest.rows.map((row) => row['session_id']),
    all.slice(1),
    'a page begins behind its cursor',
  )
  assert.deepEqual(
    await ids({ id: String(first).slice(0, 1) }),
    all.filter((one) => String(one).startsWith(String(first).slice(0, 1))),
  )
  assert.deepEqual(await ids({ subject: 'nobody' }), [])
  assert.deepEqual(await ids({ id: '%' }), [], 'no pattern of the caller')
  for (const filter of [
    { reward: 'positive' },
    { reward: 'negative' },
    { reward: 'none' },
    { reason: 'stale' },
    { version: 0 },
    { dialect: 'chat' },
    { key: 'x' },
    { source: 'header' },
  ] as const)
    for (const one of await ids(filter)) assert.ok(all.includes(one))

  const turns = await model.sessionTurns('sa', null)
  assert.deepEqual(
    turns.rows.map((row) => row['turn_id']),
    [a1.turn, a2.turn],
  )
  assert.equal((await model.turn(a1.turn))?.['turn_id'], a1.turn)
  assert.equal(await model.turn('none'), null)
  assert.equal((await model.session('sa'))?.['session_id'], 'sa')
  assert.equal((await model.group('sa', a1.group)).length >= 1, true)
  const versions = await model.versions()
  const numbers = versions.map((row) => Number(row['version']))
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => b - a),
  )
  assert.ok((await model.batch(1)).rows.length > 0)
  const lineage = await model.lineage()
  assert.ok(lineage.updates.length > 0 && lineage.moves.length > 0)
  const learning = await model.learning()
  assert.ok(learning.times.length > 0 && learning.judges.length > 0)
})

test(
  'figures of versions are those of the view, and only versions that have changed are counted again',
  {
    timeout: 60_000,
  },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const history = [...dashboardHistory({ turns: 600, versions: 20 })]
    const log = openMemoryLog()
    const project = async (): Promise<void> => {
      const projections = startProjections({ log, connection: postgres.owner })
      await projections.caughtUp()
      await projections.stop()
    }
    await log.append(records(history.slice(0, -40)))
    await project()
    const pool = openReaderPool(postgres.reader)
    t.after(() => pool.close())
    const counted: unknown[] = []
    const metrics = new VersionMetrics('policy', async ({ sql, values }) => {
      if (sql === queries.versionCounts('policy', []).sql) counted.push(...(values[1] as number[]))
      return pool.rows(sql, values)
    })
    /** Sums of floats depend on the order of the rows. */
    const plain = (rows: unknown): unknown[] =>
      JSON.parse(
        JSON.stringify(rows, (_, value: unknown) =>
          typeof value === 'number' ? Number(value.toPrecision(12)) : value,
        ),
      ) as unknown[]
    const expected = async (): Promise<unknown[]> => {
      const rows = await readOnlyQuery(postgres.reader, 'select * from version_metrics order by version desc')
      return plain(rows.map(({ gate_figures: _, update_figures: __, ...row }) => row))
    }
    const read = async (): Promise<unknown[]> =>
      plain((await metrics.read()).map(({ source_policy: _, source_version: __, ...row }) => row))
    assert.deepEqual(await read(), await expected())
    assert.equal(counted.length, (await expected()).length)
    counted.length = 0
    await read()
    assert.deepEqual(counted, [])
    await log.append(records(history.slice(-40)))
    await project()
    assert.deepEqual(await read(), await expected())
    assert.ok(counted.length > 0 && counted.length < 10, String(counted))
  },
)

/** Sessions with various keys, dialects and sources of their names, by their names. */
const varied = (event: Event): Event => {
  if (event.type !== 'TurnCaptured' && event.type !== 'TurnAborted') return event
  const n = [...event.session].reduce((sum, letter) => sum + letter.charCodeAt(0), 0)
  return {
    ...event,
    key: [null, 'k1', 'k2'][n % 3]!,
    dialect: (['chat', 'responses', 'messages'] as const)[n % 4 === 3 ? 0 : n % 4]!,
    agent: [null, 'Claude Code', 'Codex', 'other'][(n + event.turn.charCodeAt(event.turn.length - 1)) % 4]!,
    labelSource: (['header', 'agent', 'answer', 'fingerprint'] as const)[n % 4]!,
  }
}

test('a filter finds exactly the sessions that have such a turn', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const history = [...dashboardHistory({ turns: 600, versions: 10 })].map(varied)
  const log = openMemoryLog()
  await log.append(records(history))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const model = openReadModel(postgres.reader, 'policy', () => performance.now())
  t.after(() => model.close())
  type Judged = { reward: number | null; reason: string | null }
  const inForce = new Map<string, Judged>()
  const sessionOf = new Map<string, string>()
  const dropped: { turn: string; reason: string }[] = []
  const own: (TurnCaptured | TurnAborted)[] = []
  for (const event of history) {
    if (event.type === 'TurnCaptured' || event.type === 'TurnAborted') {
      sessionOf.set(event.turn, event.session)
      own.push(event)
    } else if (event.type === 'TurnScored' || event.type === 'ScoreRevised')
      inForce.set(event.turn, { reward: event.reward, reason: null })
    else if (event.type === 'TurnSkipped') inForce.set(event.turn, { reward: null, reason: event.reason })
    else if (event.type === 'BatchSealed') dropped.push(...event.dropped)
  }
  const sessions = (turns: Iterable<string>): string[] =>
    [...new Set([...turns].map((turn) => sessionOf.get(turn)!))].toSorted()
  const scored = (holds: (score: Judged) => boolean): string[] =>
    sessions([...inForce].filter(([, score]) => holds(score)).map(([turn]) => turn))
  const reasoned = (reason: string): string[] =>
    sessions([
      ...own.filter((one) => one.reason === reason).map(({ turn }) => turn),
      ...[...inForce].filter(([, one]) => one.reason === reason).map(([turn]) => turn),
      ...dropped.filter((one) => one.reason === reason).map(({ turn }) => turn),
    ])
  const shown = async (filter: Parameters<typeof model.sessions>[0]): Promise<unknown[]> => {
    const ids: string[] = []
    let page = await model.sessions(filter, null)
    for (;;) {
      ids.push(...page.rows.map((row) => String(row['session_id'])))
      if (page.next === null) return ids.toSorted()
      page = await model.sessions(filter, page.next)
    }
  }
  assert.deepEqual(
    await shown({ reward: 'positive' }),
    scored(({ reward }) => (reward ?? 0) > 0),
  )
  assert.deepEqual(
    await shown({ reward: 'negative' }),
    scored(({ reward }) => (reward ?? 0) < 0),
  )
  assert.deepEqual(
    await shown({ reward: 'none' }),
    scored(({ reward }) => reward === null),
  )
  for (const reason of ['side', 'abstained', 'stale', 'duplicate', 'greedy'])
    assert.deepEqual(await shown({ reason }), reasoned(reason), reason)
  const pool = openReaderPool(postgres.reader)
  t.after(() => pool.close())
  for (const reason of ['side', 'abstained', 'stale', 'greedy'])
    assert.deepEqual(
      await Promise.all(
        [true, false].map(async (rare) => {
          const { sql, values } = queries.sessions('policy', { reason }, null, { reason: rare, agent: true })
          return (await pool.rows(sql, values)).map((row) => row['session_id'])
        }),
      ).then(([rare, common]) => rare!.length - common!.length || Number(String(rare) !== String(common))),
      0,
      reason,
    )
  for (const agent of ['Codex', 'unknown', 'pi']) {
    const [few, many] = await Promise.all(
      [true, false].map(async (rare) => {
        const { sql, values } = queries.sessions('policy', { agent }, null, { reason: true, agent: rare })
        return (await pool.rows(sql, values)).map((row) => row['session_id'])
      }),
    )
    assert.deepEqual(few, many, agent)
  }
  const begun = new Map<string, (typeof own)[number]>()
  for (const one of own.toSorted((a, b) => a.at - b.at)) if (!begun.has(one.session)) begun.set(one.session, one)
  const first = [...begun.values()]
  const of = (holds: (one: (typeof own)[number]) => boolean): string[] =>
    first
      .filter(holds)
      .map(({ session }) => session)
      .toSorted()
  const { subject } = first[7]!
  for (const [filter, expected] of [
    [{ subject }, of((one) => one.subject === subject)],
    ...['k1', 'k2', 'none'].map((key) => [{ key }, of((one) => one.key === key)] as const),
    ...['chat', 'responses', 'messages'].map((dialect) => [{ dialect }, of((one) => one.dialect === dialect)] as const),
    ...['agent', 'answer'].map((source) => [{ source }, of((one) => one.labelSource === source)] as const),
    ...['Claude Code', 'Codex', 'other', 'unknown'].map(
      (agent) =>
        [{ agent }, sessions(own.filter((one) => (one.agent ?? 'unknown') === agent).map(({ turn }) => turn))] as const,
    ),
    [{ agent: 'pi', key: 'none' }, []],
    [{ version: 3 }, sessions(own.filter(({ version }) => version === 3).map(({ turn }) => turn))],
    [{ id: first[9]!.turn }, [first[9]!.session]],
    [{ key: 'k1', dialect: 'chat' }, of((one) => one.key === 'k1' && one.dialect === 'chat')],
  ] as const) {
    assert.deepEqual(await shown(filter), expected, JSON.stringify(filter))
    if (!('key' in filter && filter.key === 'none')) assert.ok(expected.length > 0, JSON.stringify(filter))
  }
  assert.ok(reasoned('side').length > 0 && reasoned('abstained').length > 0 && reasoned('stale').length > 0)
})

test(
  'a version that the lineage shows is among the versions at once, and what has not changed is the same object',
  { timeout: 60_000 },
  async (t) => {
    using folder = temporaryFolder()
    const postgres = await startPostgres({ folder: folder.path })
    t.after(() => postgres.stop())
    const { events } = smallHistory()
    const log = openMemoryLog()
    const published = events.findIndex((event) => event.type === 'VersionPublished' && event.number === 2)
    await log.append(records(events.slice(0, published)))
    const projections = startProjections({ log, connection: postgres.owner })
    t.after(() => projections.stop())
    await projections.caughtUp()
    let now = 0
    const model = openReadModel(postgres.reader, 'policy', () => now)
    t.after(() => model.close())
    const before = await model.versions()
    await log.append(records(events.slice(published)))
    await projections.caughtUp()
    assert.equal((await model.versions()).length, before.length, 'the lineage is up to a second old')
    now = 1_000
    const [versions, lineage, learning] = [await model.versions(), await model.lineage(), await model.learning()]
    assert.equal(versions.length, before.length + 1)
    now = 1_000_000
    assert.equal(await model.lineage(), lineage, 'the same object while nothing has changed')
    assert.equal(await model.learning(), learning)
    assert.equal(await model.versions(), versions)
  },
)

/** The server may add up the same numbers in another order. */
const rounded = (row: Record<string, unknown>): unknown =>
  JSON.parse(JSON.stringify(row, (_, one: unknown) => (typeof one === 'number' ? Number(one.toFixed(9)) : one)))

test('older versions and events follow from where the newest end, each once', async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  await log.append(records([...dashboardHistory({ turns: 700, versions: 70 })]))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const now = () => performance.now()
  const whole = openReadModel(postgres.reader, 'policy', now)
  const cut = openReadModel(postgres.reader, 'policy', now, { lineage: 10, older: 5 })
  t.after(() => Promise.all([whole.close(), cut.close()]))
  const { next: none, ...all } = await whole.lineage()
  assert.equal(none, null)
  const { next, ...first } = await cut.lineage()
  const pages = [{ versions: await cut.versions(), ...first }]
  assert.deepEqual([pages[0]!.versions.length, first.updates.length, first.moves.length], [10, 10, 10])
  for (let until = next; until !== null;) {
    const { next: further, ...page } = await cut.older(until)
    assert.ok(further === null || further < until)
    pages.push({ ...first, ...page })
    until = further
  }
  assert.ok(pages.length > 10)
  const versions = await whole.versions()
  const each = (rows: readonly Record<string, unknown>[], name: string): Record<string, unknown>[] => [
    ...new Map(rows.map((row) => [String(row[name]), row])).values(),
  ]
  for (const [list, name, expected] of [
    ['versions', 'version', versions],
    ['updates', 'number', all.updates],
    ['moves', 'seq', all.moves],
    ['freezes', 'at', all.freezes],
  ] as const) {
    const found = each(
      pages.flatMap((page) => page[list]),
      name,
    ).toSorted(
      (a, b) => expected.findIndex((row) => row[name] === a[name]) - expected.findIndex((row) => row[name] === b[name]),
    )
    assert.ok(expected.length > 0, list)
    assert.deepEqual(found.map(rounded), expected.map(rounded), list)
  }
  const [oldest, same] = [await cut.version(0), await whole.version(0)]
  assert.deepEqual(rounded(oldest!), rounded(same!), 'a version beyond the newest has its page')
})

test('the adapter of each update that the gate rejected is found by its number', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const history = [...dashboardHistory({ turns: 300, versions: 60 })]
  const log = openMemoryLog()
  await log.append(records(history))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const pool = openReaderPool(postgres.reader)
  t.after(() => pool.close())
  const updates = await pool.rows(...parts(queries.updates('policy')))
  const ofGate = updates.filter(({ status }) => status === 'rejected')
  assert.ok(ofGate.length > 0)
  const adapters = new Set<unknown>()
  for (const { number, decided_at: decided } of ofGate) {
    const [found] = await pool.rows(...parts(queries.rejected('policy', Number(number))))
    assert.ok(String(found!['since']) <= String(decided), 'the blob is looked for from before the verdict')
    adapters.add(found!['adapter'])
  }
  const recorded = history.flatMap((event) => (event.type === 'VersionRejected' ? [event.adapter] : []))
  assert.deepEqual(adapters, new Set(recorded))
  const accepted = updates.find(({ status }) => status === 'accepted')!
  assert.deepEqual(await pool.rows(...parts(queries.rejected('policy', Number(accepted['number'])))), [])
})
