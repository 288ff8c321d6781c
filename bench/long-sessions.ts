/**
 * What one long session costs a gateway: the longest holds of its event loop and its memory, for sessions of several
 * lengths, from the start of the log and from a snapshot. Each start is a process of its own, on the embedded log.
 */
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog, type Append } from '@instar/log'
import { openModel } from '@instar/policy'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { lineStarted, T0, turn } from '../test/kit/projected-history.ts'
import { ROOT } from '../tools/tree.ts'
import { machine } from './machine.ts'
import type { LongSession } from './snapshots/long-session.ts'

type Row = { sessions: number; turns: number; start: string } & LongSession
export type Report = { name: string; machine: string; rows: Row[] }

const MODEL = join(ROOT, 'models/tiny')
const APPEND_RECORDS = 1_000

/** Sessions `long-0`, `long-1`, … of `turns` turns each, whose turns alternate. */
const writeLog = async (folder: string, sessions: readonly string[], turns: number): Promise<void> => {
  const { name, sha256 } = await openModel(MODEL)
  const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
  const pending: Append[] = []
  const add = ({ topic, key, schema, payload, timestamp }: Append): void => {
    pending.push({ topic, key, schema, payload, timestamp })
  }
  add(encodeEvent({ ...lineStarted(), base: { name, sha256 } }))
  const started = Date.now() - turns * 1000
  for (let i = 0; i < turns; i += 1) {
    for (const session of sessions) {
      const text = (at: number): string => `This is answer ${at} of ${session}, in a sentence of usual length.`
      const at = Math.max(T0, started + i * 1000)
      add(
        encodeEvent(
          turn({ session, name: `${session} ${i}`, says: text(i), at, ...(i > 0 ? { to: text(i - 1) } : {}) }),
        ),
      )
    }
    if (pending.length >= APPEND_RECORDS) await log.append(pending.splice(0))
  }
  await log.append(pending.splice(0))
  await log.close()
}

const measure = async (log: string, snapshots: string, sessions: readonly string[]): Promise<LongSession> => {
  const program = fileURLToPath(new URL('snapshots/long-session.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program, log, snapshots, ...sessions])
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as LongSession
}

export const bench = async ({
  quick = false,
  logLine,
}: {
  quick?: boolean
  logLine: (line: string) => void
}): Promise<Report> => {
  const rows: Row[] = []
  for (const [sessions, turns] of quick
    ? ([[1, 1_000]] as const)
    : ([
        [1, 1_000],
        [1, 20_000],
        [1, 100_000],
        [2, 50_000],
      ] as const)) {
    const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
    const names = Array.from({ length: sessions }, (_, i) => `long-${i}`)
    try {
      await writeLog(join(folder, 'log'), names, turns)
      for (const start of ['from the start', 'from its snapshot']) {
        rows.push({ sessions, turns, start, ...(await measure(join(folder, 'log'), join(folder, 'snapshots'), names)) })
        logLine(JSON.stringify(rows.at(-1)))
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  }
  return { name: 'long sessions', machine: machine(), rows }
}
