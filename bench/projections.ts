/**
 * Time to project a log into PostgreSQL: into an empty database, and at a restart with all rows present. The embedded
 * log holds the records that the services write; PostgreSQL is the embedded one.
 */
import { schemaTexts } from '@instar/events/codec'
import { openEmbeddedLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections } from '@instar/projections'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { longHistory, records } from '../test/kit/projected-history.ts'
import { machine } from './machine.ts'

const TURNS = 100_000
const APPEND_RECORDS = 2000

/** `cpuSeconds`: of this process, without PostgreSQL. */
export type Row = { what: string; seconds: number; perSecond: number; cpuSeconds: number }
export type Report = { name: string; machine: string; turns: number; events: number; rows: Row[] }

export const bench = async (turns = TURNS): Promise<Report> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
  await chmod(folder, 0o711)
  const log = await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() })
  const postgres = await startPostgres({ folder: join(folder, 'postgres') })
  try {
    let events = 0
    let pending = []
    for (const event of longHistory(turns)) {
      pending.push(event)
      if (pending.length < APPEND_RECORDS) continue
      events += (await log.append(records(pending))).length
      pending = []
    }
    events += (await log.append(records(pending))).length
    const rows: Row[] = []
    const measure = async (what: string, count: number, work: () => Promise<unknown>): Promise<void> => {
      const cpu = process.cpuUsage()
      const startedAt = performance.now()
      await work()
      const seconds = (performance.now() - startedAt) / 1000
      const { user, system } = process.cpuUsage(cpu)
      rows.push({ what, seconds, perSecond: count / seconds, cpuSeconds: (user + system) / 1e6 })
    }
    const project = async (): Promise<void> => {
      const projections = startProjections({ log, connection: postgres.owner })
      await projections.caughtUp()
      await projections.stop()
    }
    await measure('all rows from the start of the log', events, project)
    await measure('restart with all rows present', events, project)
    await measure('select * from version_metrics', turns, () =>
      readOnlyQuery(postgres.reader, 'select * from version_metrics'),
    )
    const [row] = await readOnlyQuery(postgres.reader, 'select count(*) as n from turns')
    if (row?.['n'] !== turns) throw new Error(`PostgreSQL has ${String(row?.['n'])} turns, the log has ${turns}`)
    return { name: 'projections', machine: machine(), turns, events, rows }
  } finally {
    await postgres.stop()
    await log.close()
    await rm(folder, { recursive: true })
  }
}

if (import.meta.main) {
  const report = await bench(Number(process.argv.find((word) => /^\d+$/.test(word)) ?? TURNS))
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify(report))
  } else {
    console.log(`${report.name}: ${report.turns} turns, ${report.events} events; ${report.machine}`)
    for (const { what, seconds, perSecond, cpuSeconds } of report.rows)
      console.log(
        `${what.padEnd(32)} ${seconds.toFixed(1).padStart(7)} s  ${Math.round(perSecond).toString().padStart(8)} per s  ${cpuSeconds.toFixed(1)} s CPU in Node`,
      )
  }
}
