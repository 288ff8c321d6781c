import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { startPostgres, startProjections } from '../index.ts'
import { temporaryFolder } from '../../../../test/kit/database.ts'
import { records, smallHistory } from '../../../../test/kit/projected-history.ts'
import { openReadModel } from './read-model.ts'

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
  assert.ok((await model.batch(1)).length > 0)
  const lineage = await model.lineage()
  assert.ok(lineage.updates.length > 0 && lineage.moves.length > 0)
  const learning = await model.learning()
  assert.ok(learning.hours.length > 0 && learning.rewards.length > 0)
})

test('a version that the lineage shows is among the versions at once', { timeout: 60_000 }, async (t) => {
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
  assert.equal((await model.versions()).length, before.length + 1)
})
