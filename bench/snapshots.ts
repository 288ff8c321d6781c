/**
 * How long a service takes to be ready on a long log: from the start of the log, and from its snapshot; and what
 * memory it takes. Each life is a process of its own, on the embedded log.
 */
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog, type Append } from '@instar/log'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { machine, rounded } from './machine.ts'
import { longLog } from './snapshots/history.ts'
import type { Life } from './snapshots/service.ts'

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

const SERVICES = ['scorer', 'trainer', 'publisher', 'gateway'] as const
const AT_ONCE = 2_000

/** How many records. */
const write = async (folder: string, turns: number): Promise<number> => {
  const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
  let count = 0
  let some: Append[] = []
  let writing: Promise<unknown> = Promise.resolve()
  const append = async (): Promise<void> => {
    await writing
    writing = log.append(some)
    count += some.length
    some = []
  }
  for (const { topic, key, schema, payload, timestamp } of longLog(turns)) {
    some.push({ topic, key, schema, payload, timestamp })
    if (some.length === AT_ONCE) await append()
  }
  await append()
  await writing
  await log.close()
  return count
}

const live = async (service: string, log: string, snapshots: string): Promise<Life> => {
  const program = fileURLToPath(new URL('snapshots/service.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program, service, log, snapshots])
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Life
}

const sizeOf = async (folder: string, service: string): Promise<number> => {
  const names = (await readdir(folder)).filter((name) => name.startsWith(`${service}.`))
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0) / 2 ** 20
}

/** A tenth of the turns first: what grows with the log is seen in the difference. */
export const bench = async ({
  turns = 1_000_000,
  say,
}: {
  turns?: number
  say: (line: string) => void
}): Promise<Report> => {
  const rows: Row[] = []
  for (const count of [turns / 10, turns]) {
    const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
    const [log, snapshots] = [join(folder, 'log'), join(folder, 'snapshots')]
    try {
      const from = performance.now()
      const records = await write(log, count)
      say(`${count} turns, ${records} records written in ${((performance.now() - from) / 1000).toFixed(0)} s`)
      for (const service of SERVICES) {
        for (const start of ['from the start', 'from its snapshot']) {
          const life = await live(service, log, snapshots)
          rows.push({
            service,
            turns: count,
            start,
            readySeconds: rounded(life.readySeconds),
            cpuSeconds: rounded(life.cpuSeconds),
            peakMiB: Math.round(life.peakMiB),
            longestPauseMs: Math.round(life.longestPauseMs),
            snapshotMiB: Math.round(await sizeOf(snapshots, service)),
          })
          say(JSON.stringify({ ...rows.at(-1), ...life }))
        }
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  }
  return { name: 'snapshots', machine: machine(), rows }
}
