/**
 * What the projections store has versions: the fold's snapshot STATE_VERSION, the rows in a real PostgreSQL RULES. A build with
 * another one fills no row twice and loses none.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openSnapshots, type EventLog, type Offsets } from '@instar/log'
import { startPostgres, startProjections } from '@instar/projections'
import { RULES } from '../../packages/projections/src/project.ts'
import { digests, temporaryFolder, withClient } from '../kit/database.ts'
import { recordedRows, rowDigests, RULES_FILE, sourcesOfRows } from './golden-rows.ts'
import { foldInto, goldenLog, inFolder, recordedSources } from './golden-states.ts'

test('the rows of the golden log are those of these rules, and no table is empty', async () => {
  const rows = await rowDigests(await goldenLog())
  const changed = `raise RULES in ${RULES_FILE}, so that databases are filled again. Then: node bootstrap.cjs test/snapshots/golden.ts`
  assert.deepEqual(rows, recordedRows()[RULES], `the rows have changed: ${changed}`)
  assert.deepEqual(
    Object.entries(rows).filter(([, digest]) => digest.startsWith('0 ')),
    [],
  )
  assert.equal(
    sourcesOfRows(),
    recordedSources()['rows'],
    `the sources of the rows have changed. If rows have, ${changed}`,
  )
})

/** A log that records the positions from which it is read. */
const watched = (log: EventLog): { log: EventLog; from: Offsets[] } => {
  const from: Offsets[] = []
  const subscribe: EventLog['subscribe'] = (options) => {
    from.push(options.from as Offsets)
    return log.subscribe(options)
  }
  const get = (target: EventLog, name: string | symbol): unknown => {
    const value: unknown = name === 'subscribe' ? subscribe : Reflect.get(target, name)
    return typeof value === 'function' ? (value as () => unknown).bind(target) : value
  }
  return { from, log: new Proxy(log, { get }) }
}

test('a snapshot of an earlier build is continued; after another number of the state or of the rules the rows are the same', async (t) => {
  using folder = temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  t.after(() => server.stop())
  const { log, from } = watched(await goldenLog())
  const place = join(folder.path, 'snapshots')
  mkdirSync(place)
  const lines: string[] = []
  const life = async (withSnapshot = true): Promise<Record<string, string>> => {
    const snapshots = withSnapshot ? openSnapshots(place, { logLine: (line) => lines.push(line) }) : undefined
    const projections = startProjections({ log, connection: server.owner, snapshots })
    await projections.caughtUp()
    await projections.stop()
    return digests(server.owner)
  }
  const truth = await life(false)
  const whole = (await log.ends(['turns', 'scores', 'updates', 'weights'])) as Record<string, Record<number, number>>

  // Written by a build without numbers, at three fifths of the log.
  await inFolder('projections', 1, async (golden) => cpSync(golden, place, { recursive: true }))
  assert.deepEqual(await life(), truth)
  assert.deepEqual(lines, [])
  assert.ok(Object.values(from.at(-1)!.turns!).every((next) => next > 0))

  assert.deepEqual(await life(), truth)
  for (const [topic, partitions] of Object.entries(from.at(-1)!))
    for (const [partition, next] of Object.entries(partitions)) assert.equal(next, whole[topic]![Number(partition)])

  await inFolder('projections', null, async (later) => {
    await foldInto(log, 'projections', later, undefined, { number: 2, migrations: {} })
    cpSync(later, place, { recursive: true })
  })
  assert.deepEqual(await life(), truth)
  assert.deepEqual(from.at(-1), {})
  assert.match(lines.splice(0).join('\n'), /^projections: the snapshot is not used \(another build wrote it\)[^\n]+$/)

  await withClient(server.owner, (client) => client.query('update offsets set rules = rules - 1'))
  assert.deepEqual(await life(), truth)
  assert.deepEqual(from.at(-1), {})
  assert.match(lines.splice(0).join('\n'), /^projections: the snapshot is not used \(PostgreSQL is behind it\)[^\n]+$/)
  assert.deepEqual([await life(), lines], [truth, []])
})
