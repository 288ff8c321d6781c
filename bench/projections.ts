/**
 * The read model: how long a long log takes to become rows, from nothing and when the rows are all there.
 * The embedded log holds the records as the services write them; PostgreSQL is the embedded one.
 */
import { schemaTexts } from '@instar/events/codec'
import { openEmbeddedLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections } from '@instar/projections'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { longHistory, records } from '../test/kit/projected-history.ts'

const TURNS = 100_000

export type Row = { what: string; seconds: number; perSecond: number; cpuSeconds: number }
export type Report = { name: string; machine: string; turns: number; events: number; rows: Row[] }

export const bench = async (turns = TURNS): Promise<Report> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
  await chmod(folder, 0o711)
  const log = await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() })
  const postgres = await startPostgres({ folder: join(folder, 'postgres') })
  try {
    let events = 0
    let some = []
    for (const event of longHistory(turns)) {
      some.push(event)
      if (some.length < 2000) continue
      events += (await log.append(records(some))).length
      some = []
    }
    events += (await log.append(records(some))).length
    const rows: Row[] = []
    const timed = async (what: string, count: number, work: () => Promise<unknown>): Promise<void> => {
      const cpu = process.cpuUsage()
      const started = performance.now()
      await work()
      const seconds = (performance.now() - started) / 1000
      const { user, system } = process.cpuUsage(cpu)
      rows.push({ what, seconds, perSecond: count / seconds, cpuSeconds: (user + system) / 1e6 })
    }
    const project = async (): Promise<void> => {
      const projections = startProjections({ log, connection: postgres.owner })
      await projections.caughtUp()
      await projections.stop()
    }
    await timed('rows from nothing', events, project)
    await timed('restart, all rows there', events, project)
    await timed('select * from version_metrics', turns, () =>
      readOnlyQuery(postgres.reader, 'select * from version_metrics'),
    )
    const [found] = await readOnlyQuery(postgres.reader, 'select count(*) as n from turns')
    if (found?.['n'] !== turns) throw new Error(`${String(found?.['n'])} turns in PostgreSQL, ${turns} on the log`)
    const machine = `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`
    return { name: 'projections', machine, turns, events, rows }
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
