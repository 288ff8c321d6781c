/**
 * A process that owns a PostgreSQL and fills it from a log that is the same in every run. Prints `server PID` when
 * PostgreSQL is up, `written N` as the projection advances and `done` at the end, then waits to be killed.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openMemoryLog } from '@instar/log'
import { startPostgres, startProjections } from '@instar/projections'
import { existingPaths } from '@instar/projections/postgres/server-paths'
import { longHistory, records } from '../projected-history.ts'

const [folder = '', turns = '100'] = process.argv.slice(2)
const log = openMemoryLog()
const all = records([...longHistory(Number(turns))])
const postgres = await startPostgres({ folder })
const paths = existingPaths(folder)
console.log(`server ${readFileSync(join(paths?.data ?? '', 'postmaster.pid'), 'utf8').split('\n')[0]}`)
const projections = startProjections({ log, connection: postgres.owner, batch: 16, linger: 1 })
for (let i = 0; i < all.length; i += 50) {
  await log.append(all.slice(i, i + 50))
  await projections.caughtUp()
  console.log(`written ${i}`)
}
console.log('done')
setInterval(() => undefined, 60_000)
