/** Starts on damaged files of the embedded PostgreSQL, on which the server itself starts. */
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { digests, temporaryFolder, withClient } from '../../../../test/kit/database.ts'
import { longHistory, records } from '../../../../test/kit/projected-history.ts'
import { startPostgres, startProjections } from '../index.ts'
import { existingPaths } from './server-paths.ts'

const fill = async (folder: string, logLine?: (line: string) => void): Promise<Record<string, string>> => {
  const postgres = await startPostgres({ folder, ...(logLine ? { logLine } : {}) })
  try {
    const log = openMemoryLog()
    await log.append(records([...longHistory(40)]))
    const projections = startProjections({ log, connection: postgres.owner })
    await projections.caughtUp()
    await projections.stop()
    return await digests(postgres.owner)
  } finally {
    await postgres.stop()
  }
}

/** Overwrites a part of each page, as a power failure or a bad disk may. */
const damage = (file: string, byte: number): void => {
  const bytes = readFileSync(file)
  for (let page = 0; page < bytes.length; page += 8192) bytes.fill(byte, page, page + 4096)
  writeFileSync(file, bytes)
}

const pathOf = async (folder: string, relation: string): Promise<string> => {
  const postgres = await startPostgres({ folder })
  try {
    return await withClient(postgres.owner, async (client) => {
      const { rows } = await client.query<{ path: string }>(`select pg_relation_filepath('${relation}') as path`)
      return join(existingPaths(folder)!.data, rows[0]!.path)
    })
  } finally {
    await postgres.stop()
  }
}

test('damaged catalogs are created anew by the same start', { timeout: 120_000 }, async () => {
  for (const [relation, byte] of [
    ['pg_database', 0xa5],
    ['pg_database', 0],
    ['pg_class', 0xa5],
  ] as const) {
    using folder = temporaryFolder()
    const rows = await fill(folder.path)
    damage(await pathOf(folder.path, relation), byte)
    const logLines: string[] = []
    assert.deepEqual(await fill(folder.path, (line) => logLines.push(line)), rows, `${relation} ${byte}`)
    assert.match(logLines.join('\n'), /Recreating the database; it is refilled from the log/)
  }
})

test('damage that the server has reported while it ran is mended by the next start', { timeout: 120_000 }, async () => {
  using folder = temporaryFolder()
  const rows = await fill(folder.path)
  damage(await pathOf(folder.path, 'turns'), 0xa5)
  const postgres = await startPostgres({ folder: folder.path })
  await assert.rejects(
    withClient(postgres.owner, (client) => client.query('select count(session_id) from turns')),
    { code: 'XX001' },
  )
  await postgres.stop()
  const logLines: string[] = []
  assert.deepEqual(await fill(folder.path, (line) => logLines.push(line)), rows)
  assert.match(logLines.join('\n'), /found damaged data: invalid page in block 0[^]*Recreating/)
})

test('a place.json that a power failure has emptied is written again', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const rows = await fill(folder.path)
  for (const left of ['', 'null', '{"folder": 1}']) {
    writeFileSync(join(folder.path, 'place.json'), left)
    assert.deepEqual(await fill(folder.path), rows)
  }
})

test('any other failure is postgres_failed, after which the pipeline runs without a database', async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 'postgres')
  writeFileSync(path, '')
  await assert.rejects(startPostgres({ folder: path }), { code: 'postgres_failed' })
  rmSync(path)
})
