/**
 * What `instar doctor` checks, as far as a running gateway can without work that grows with the history: each check has a
 * time limit, and its findings are kept, however many pages ask.
 */
import { getHeapStatistics } from 'node:v8'
import { setTimeout as delay } from 'node:timers/promises'
import type { EventLog } from '@instar/log'
import { TOPICS } from '@instar/events/flow'
import { errorFinding, ok, unsure, wrong, type Finding } from '@instar/process/finding'
import { folderFindings, nodeFindings } from '@instar/process/machine-findings'
import { migrationFindings, projectionFindings } from '@instar/projections/findings'
import type { ReadModel } from '@instar/projections/read-model'

export type CheckPorts = {
  log: Pick<EventLog, 'ends' | 'at'>
  /** Null: this gateway keeps nothing on a disk that it knows of. */
  data: string | null
  readModel: ReadModel | null
  model: { name: string; contextLength: number }
  engine: { capabilities(): { fingerprint: string }; lost?: () => string | null }
  now: () => number
}
/** In bytes, of the gateway's process. */
type Memory = { resident: number; heap: number; heap_limit: number }
export type Checked = { at: string; checks: (Finding & { name: string })[]; memory: Memory }

/** Time of one check, and age up to which findings are given again, in milliseconds. */
export const CHECK_MS = 5_000
export const KEPT_MS = 15_000

type Check = readonly [name: string, run: () => readonly Finding[] | Promise<readonly Finding[]>]

const checksOf = ({ log, data, readModel, model, engine, now }: CheckPorts): Check[] => {
  const tables = readModel && once(() => readModel.inspect())
  return [
    ['node', nodeFindings],
    ...(data === null ? [] : [['data folder', () => folderFindings(data)] as const]),
    [
      'log',
      async () => {
        const ends = await log.ends(TOPICS)
        const count = (topic: keyof typeof ends): number =>
          Object.values(ends[topic] ?? {}).reduce((sum, end) => sum + end, 0)
        return [ok(TOPICS.map((topic) => `${count(topic)} ${topic}`).join(', '))]
      },
    ],
    ['model', () => [ok(`${model.name}, context ${model.contextLength}`)]],
    [
      'engine',
      () => {
        const lost = engine.lost?.() ?? null
        return lost === null
          ? [ok(engine.capabilities().fingerprint)]
          : [wrong(lost, 'Start the engine, or correct INSTAR_ENGINE. Requests are refused until it answers.')]
      },
    ],
    ...(tables
      ? ([
          ['PostgreSQL', async () => [ok((await tables()).version)]],
          ['migrations', async () => withTables(tables, ({ migrations }) => migrationFindings(migrations))],
          ['projections', async () => withTables(tables, (found) => projectionFindings(log, found, now()))],
        ] as const)
      : ([
          [
            'PostgreSQL',
            () => [
              unsure('there is no read model', 'Set DATABASE_URL at the gateway: without it pages have no history.'),
            ],
          ],
        ] as const)),
  ]
}

/** Its own check reports why PostgreSQL does not answer. */
const withTables = async <T>(
  tables: () => Promise<T>,
  findings: (found: T) => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> => {
  const found = await tables().catch(() => null)
  return found === null ? [unsure(AWAY)] : findings(found)
}

const once = <T>(read: () => Promise<T>): (() => Promise<T>) => {
  let reading: Promise<T> | null = null
  return () => (reading ??= read())
}

const AWAY = 'PostgreSQL does not answer'

const memoryNow = (): Memory => ({
  resident: process.memoryUsage.rss(),
  heap: getHeapStatistics().used_heap_size,
  heap_limit: getHeapStatistics().heap_size_limit,
})

/** At most one round of checks runs at a time. */
export const createChecks = (ports: CheckPorts, checkMs = CHECK_MS): (() => Promise<Checked>) => {
  let last: { at: number; found: Promise<Checked> } | null = null
  const findings = async ([name, run]: Check): Promise<Checked['checks']> => {
    const done = new AbortController()
    const found = await Promise.race([
      Promise.resolve()
        .then(run)
        .catch((error: unknown) => [errorFinding(error)]),
      delay(checkMs, null, { signal: done.signal }).catch(() => null),
    ])
    done.abort()
    const shown: readonly Finding[] = found === null ? [unsure(`no result after ${checkMs / 1000} s`)] : found
    return shown.map((one) => ({ name, ...one }))
  }
  const round = async (at: number): Promise<Checked> => {
    const checks = await Promise.all(checksOf(ports).map(findings))
    return { at: new Date(at).toISOString(), checks: checks.flat(), memory: memoryNow() }
  }
  return () => {
    const at = ports.now()
    if (last === null || at - last.at >= KEPT_MS || at < last.at) last = { at, found: round(at) }
    return last.found
  }
}
