/**
 * Writes the golden snapshots of versions that have none, and records the digests of the folds' sources after a change under
 * which every golden snapshot still holds: `node bootstrap.cjs test/snapshots/golden.ts`.
 */
import { encodeEvent } from '@instar/events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { gzipSync } from 'node:zlib'
import { RULES } from '../../packages/projections/src/project.ts'
import { STATE_VERSION as GATEWAY } from '../../services/gateway/src/session/snapshot.ts'
import {
  comparedGateway,
  GATEWAY_VERSION_FILE,
  sourcesOfGateway,
  stateOf,
  writeGoldenGateway,
} from './golden-gateway.ts'
import { recordedRows, rowDigests, ROWS, RULES_FILE, sourcesOfRows } from './golden-rows.ts'
import { goldenHistory } from './golden-history.ts'
import {
  compared,
  fileOf,
  firstShare,
  foldInto,
  goldenLog,
  goldenVersions,
  inFolder,
  LOG,
  NAMES,
  recordedSources,
  SOURCES,
  sourcesOf,
  versionFileOf,
  VERSIONS,
  type Stored,
} from './golden-states.ts'

if (!existsSync(LOG)) {
  const records = goldenHistory().map((event): Stored => {
    const { topic, key, schema, payload, timestamp } = encodeEvent(event)
    return { topic, key, schema, payload: Buffer.from(payload).toString('base64'), timestamp }
  })
  writeFileSync(LOG, gzipSync(JSON.stringify(records)))
}
const log = await goldenLog()
const sources = recordedSources()
const hold = (name: string, number: number, file: string, holds: boolean): void => {
  if (!holds) throw new Error(`${name}: the state of version ${number} has changed: raise STATE_VERSION in ${file}`)
}
for (const name of NAMES) {
  const { number } = VERSIONS[name]
  if (!goldenVersions(name).includes(number)) {
    await inFolder(name, null, async (folder) => {
      await foldInto(log, name, folder, await firstShare(log, name))
      writeFileSync(fileOf(name, number), gzipSync(readFileSync(join(folder, `${name}.db`))))
    })
    console.log(`${name}: golden snapshot of version ${number} written`)
  }
  const { golden, again, from, whole } = await compared(log, name, number)
  const same = isDeepStrictEqual(golden.rows, again.rows) && isDeepStrictEqual(from.rows, whole.rows)
  hold(name, number, versionFileOf(name), same && from.read < whole.read)
  sources[name] = sourcesOf(name)
}
if (await writeGoldenGateway(GATEWAY.number))
  console.log(`gateway: golden snapshot of version ${GATEWAY.number} written`)
const { golden, again, from, whole } = await comparedGateway(GATEWAY.number)
const same = isDeepStrictEqual(stateOf(golden), stateOf(again)) && isDeepStrictEqual(stateOf(from), stateOf(whole))
hold('gateway', GATEWAY.number, GATEWAY_VERSION_FILE, same && from.read < whole.read)
sources['gateway'] = sourcesOfGateway()
const rows = recordedRows()
const now = await rowDigests(log)
if (rows[RULES] && !isDeepStrictEqual(rows[RULES], now))
  throw new Error(`the rows of the golden log have changed: raise RULES in ${RULES_FILE}`)
if (!rows[RULES]) writeFileSync(ROWS, `${JSON.stringify({ ...rows, [RULES]: now }, null, 2)}\n`)
sources['rows'] = sourcesOfRows()
writeFileSync(SOURCES, `${JSON.stringify(sources, null, 2)}\n`)
