/** The projection continues from its snapshot, and the rows are those of a run from the start of the log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog, openSnapshots, type EventLog, type Offsets } from '@instar/log'
import { startPostgres, startProjections, type DatabaseConnection } from './index.ts'
import { adminOf, digests, temporaryFolder, withClient } from '../../../test/kit/database.ts'
import { longHistory, records } from '../../../test/kit/projected-history.ts'

const TURNS = 120

/** A log that records the positions from which it is read. */
const watched = (log: EventLog): { log: EventLog; from: Offsets[] } => {
  const from: Offsets[] = []
  return {
    from,
    log: new Proxy(log, {
      get(target, name) {
        if (name === 'subscribe') {
          return (options: Parameters<EventLog['subscribe']>[0]) => {
            from.push(options.from as Offsets)
            return target.subscribe(options)
          }
        }
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
      },
    }),
  }
}

const events = [...longHistory(TURNS)]

const undisturbed = async (connection: DatabaseConnection): Promise<Record<string, string>> => {
  const log = openMemoryLog()
  await log.append(records(events))
  const projections = startProjections({ log, connection })
  await projections.caughtUp()
  await projections.stop()
  return digests(connection)
}

test('after a restart with an emptied database the rows are the same', { timeout: 120_000 }, async (t) => {
  using folder = temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  t.after(() => server.stop())
  const database = async (name: string): Promise<DatabaseConnection> => {
    await withClient(adminOf(server.owner), (client) => client.query(`create database ${name} owner instar`))
    return { ...server.owner, database: name }
  }
  const expected = await undisturbed(await database('undisturbed'))
  const connection = await database('kept')
  const { log, from } = watched(openMemoryLog())
  const logLines: string[] = []
  const snapshots = openSnapshots(`${folder.path}/snapshots`, {
    records: 40,
    ms: Infinity,
    cacheWeight: 20,
    logLine: (line) => logLines.push(line),
  })
  const parts = [0, 1, 2].map((i) =>
    events.slice(Math.floor((i * events.length) / 3), Math.floor(((i + 1) * events.length) / 3)),
  )
  for (const part of parts) {
    await log.append(records(part))
    const projections = startProjections({ log, connection, snapshots, batch: 30 })
    await projections.caughtUp()
    await projections.stop()
  }
  assert.deepEqual(await digests(connection), expected)
  const ends = await log.ends(['turns', 'scores', 'updates', 'weights'])
  assert.deepEqual(from[0], {})
  assert.ok(
    Object.values(from[2]!.turns ?? {}).some((next) => next > 0),
    'the third life read on',
  )

  const last = startProjections({ log, connection, snapshots })
  await last.caughtUp()
  await last.stop()
  for (const [topic, partitions] of Object.entries(from[3]!))
    for (const [partition, next] of Object.entries(partitions))
      assert.equal(next, ends[topic as 'turns']?.[Number(partition)])
  assert.deepEqual(logLines, [])

  const empty = await database('anew')
  const again = startProjections({ log, connection: empty, snapshots })
  await again.caughtUp()
  await again.stop()
  assert.match(logLines.join(), /PostgreSQL is behind it/)
  assert.deepEqual(from[4], {})
  assert.deepEqual(await digests(empty), expected)
})
