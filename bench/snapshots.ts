/**
 * Time until a service is ready on a long log, from the start of the log, then killed at once, and from its snapshot,
 * and its memory. Each start is a separate process, on the embedded log.
 */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog, type Append } from '@instar/log'
import { openModel } from '@instar/policy'
import { startPostgres } from '@instar/projections'
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ROOT } from '../tools/tree.ts'
import { machine, rounded } from './machine.ts'
import { longLog } from './snapshots/history.ts'
import type { ServiceStart } from './snapshots/service.ts'

export type Row = {
  service: string
  turns: number
  start: string
  readySeconds: number
  cpuSeconds: number
  peakMiB: number
  longestPauseMs: number
  snapshotMiB: number
}
export type Report = { name: string; machine: string; rows: Row[] }

const SERVICES = ['scorer', 'trainer', 'publisher', 'gateway', 'projections'] as const
const MODEL = join(ROOT, 'models/tiny')
const APPEND_RECORDS = 2_000

/** Resolves with the number of records. */
const writeLog = async (folder: string, turns: number): Promise<number> => {
  const { name, sha256 } = await openModel(MODEL)
  const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
  let count = 0
  let pending: Append[] = []
  let writing: Promise<unknown> = Promise.resolve()
  const append = async (): Promise<void> => {
    await writing
    writing = log.append(pending)
    count += pending.length
    pending = []
  }
  for (const { topic, key, schema, payload, timestamp } of longLog(turns, { name, sha256 })) {
    pending.push({ topic, key, schema, payload, timestamp })
    if (pending.length === APPEND_RECORDS) await append()
  }
  await append()
  await writing
  await log.close()
  return count
}

const startService = async (service: string, words: readonly string[]): Promise<ServiceStart> => {
  const program = fileURLToPath(new URL('snapshots/service.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program, service, ...words]).catch(
    (error: { signal?: string; stdout: string }) => {
      if (error.signal === 'SIGKILL' && error.stdout !== '') return error
      throw error
    },
  )
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as ServiceStart
}

/** Size of the snapshot files of a service, MiB. */
const sizeOf = async (folder: string, service: string): Promise<number> => {
  const names = (await readdir(folder)).filter((name) => name.startsWith(`${service}.`))
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0) / 2 ** 20
}

/** Measures a tenth of the turns first, so that the growth with the log can be seen. */
export const bench = async ({
  turns = 1_000_000,
  logLine,
}: {
  turns?: number
  logLine: (line: string) => void
}): Promise<Report> => {
  const rows: Row[] = []
  for (const count of [turns / 10, turns]) {
    const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
    await chmod(folder, 0o711)
    const [log, snapshots] = [join(folder, 'log'), join(folder, 'snapshots')]
    const postgres = await startPostgres({ folder: join(folder, 'postgres') })
    try {
      const startedAt = performance.now()
      const records = await writeLog(log, count)
      logLine(`${count} turns, ${records} records written in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
      const connection = JSON.stringify(postgres.owner)
      for (const [start, end] of [
        ['from the start', 'kill'],
        ['from its snapshot', 'stop'],
      ] as const) {
        for (const service of SERVICES) {
          const measured = await startService(service, [log, snapshots, end, connection])
          rows.push({
            service,
            turns: count,
            start,
            readySeconds: rounded(measured.readySeconds),
            cpuSeconds: rounded(measured.cpuSeconds),
            peakMiB: Math.round(measured.peakMiB),
            longestPauseMs: Math.round(measured.longestPauseMs),
            snapshotMiB: Math.round(await sizeOf(snapshots, service)),
          })
          logLine(JSON.stringify({ ...rows.at(-1), ...measured }))
        }
      }
    } finally {
      await postgres.stop()
      await rm(folder, { recursive: true })
    }
  }
  return { name: 'snapshots', machine: machine(), rows }
}
