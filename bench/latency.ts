/**
 * The whole pipeline in one process with the tiny model, people who ask 4 times a second from a thread of their
 * own: how long until what was learned serves, how long a rollback takes, and what learning costs those who wait.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { decodeRecord, type Event } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { adminToken } from '../services/gateway/src/receive/admin-token.ts'
import type { EventLog } from '@instar/log'
import { adminTokenIn } from '@instar/process'
import { startPipeline, type Pipeline } from '../cli/src/pipeline.ts'
import { machine, median, quantile, rounded } from './machine.ts'
import { ask, crowd, type Asked } from './people.ts'

const MODEL = resolve(import.meta.dirname, '../models/tiny')
const PER_SECOND = 4
const ROLLBACKS = 20
/** The histogram holds intervals between ticks of this length; what is beyond it is delay. */
const TICK_MS = 5

type LatencyRow = {
  what: string
  count: number
  p50: number
  p99: number
  target: string | null
  reached: boolean | null
}
export type Report = {
  name: string
  machine: string
  versions: number
  rejected: number
  requests: number
  failed: number
  rows: LatencyRow[]
}
type LatencyOptions = { quick?: boolean; say?: (line: string) => void }

type Window = { from: number; to: number }
const now = (): number => performance.timeOrigin + performance.now()

async function* events(log: EventLog, topic: Topic): AsyncGenerator<{ id: string; event: Event }> {
  for await (const batch of log.read(topic)) for (const record of batch) yield decodeRecord(record)
}

/** For each version that an update made: from the end of the last turn that its batch needed to the first token it served. */
const untilServed = async (log: EventLog, asked: readonly Asked[]): Promise<number[]> => {
  const finished = new Map<string, number>()
  const causes = new Map<string, string>()
  const batches = new Map<string, number>()
  const updates = new Map<string, string>()
  for await (const { event } of events(log, 'turns'))
    if (event.type === 'TurnCaptured') finished.set(event.turn, event.finishedAt)
  for await (const { id, event } of events(log, 'scores')) if (event.type === 'TurnScored') causes.set(id, event.cause)
  for await (const { id, event } of events(log, 'updates')) {
    if (event.type === 'BatchSealed')
      batches.set(id, Math.max(...event.items.map(({ score }) => finished.get(causes.get(score) ?? '') ?? Number.NaN)))
    if (event.type === 'UpdateComputed') updates.set(id, event.batch)
  }
  const found: number[] = []
  for await (const { event } of events(log, 'weights')) {
    if (event.type !== 'VersionPublished') continue
    const last = batches.get(updates.get(event.update) ?? '')
    const served = asked.filter(({ version }) => version === event.number).map(({ first }) => first)
    if (last === undefined || !Number.isFinite(last)) throw new Error(`version ${event.number} has no last turn`)
    if (served.length > 0) found.push(Math.min(...served) - last)
  }
  return found
}

/** From the command to the first token of the version gone back to, by one who asks when the command has returned. */
const rollbacks = async ({ url }: Pipeline, token: string, count: number, latest: number): Promise<number[]> => {
  const found: number[] = []
  for (let at = 0; at < count; at++) {
    const version = at % 2 === 0 ? Math.max(0, latest - 1 - (at % latest)) : latest
    const began = now()
    const reply = await fetch(`${url}/admin/rollback`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-instar-admin-token': token },
      body: JSON.stringify({ version }),
    })
    if (!reply.ok) throw new Error(`rollback to ${version}: HTTP ${reply.status} ${await reply.text()}`)
    const answer = await ask(url, [{ role: 'user', content: 'What is 3 plus 4?' }])
    if (answer.version !== version) throw new Error(`version ${answer.version} answered after a rollback to ${version}`)
    found.push(answer.first - began)
  }
  return found
}

const row = (
  what: string,
  values: readonly number[],
  target: { text: string; reached: (p50: number, p99: number) => boolean } | null,
): LatencyRow => {
  const [p50, p99] = [median(values), quantile(values, 0.99)]
  return {
    what,
    count: values.length,
    p50: rounded(p50),
    p99: rounded(p99),
    target: target?.text ?? null,
    reached: values.length === 0 ? null : (target?.reached(p50, p99) ?? null),
  }
}

const delays = (
  what: string,
  histogram: ReturnType<typeof monitorEventLoopDelay>,
  limit: number | null,
): LatencyRow => {
  const [p50, p99] = [50, 99].map((share) => Math.max(0, histogram.percentile(share) / 1e6 - TICK_MS)) as [
    number,
    number,
  ]
  return {
    what,
    count: histogram.count,
    p50: rounded(p50),
    p99: rounded(p99),
    target: limit === null ? null : `p99 ≤ ${limit} ms`,
    reached: limit === null ? null : p99 <= limit,
  }
}

export const bench = async (options: LatencyOptions = {}): Promise<Report> => {
  const say = options.say ?? (() => undefined)
  const where = machine()
  const data = mkdtempSync(join(tmpdir(), 'instar-bench-'))
  const [idleSeconds, learnSeconds] = options.quick ? [10, 40] : [60, 240]
  const idleDelay = monitorEventLoopDelay({ resolution: TICK_MS })
  const busyDelay = monitorEventLoopDelay({ resolution: TICK_MS })
  const windows: Window[] = []
  let fatal: Error | null = null
  let rejected = 0
  const over = (): void => {
    busyDelay.disable()
    const last = windows.at(-1)
    if (last) last.to = Math.min(last.to, now())
  }
  const pipeline = await startPipeline(
    {
      data,
      model: MODEL,
      engine: 'auto',
      database: false,
      gateway: { port: 0 },
      scorer: {},
      trainer: {},
      publisher: {},
    },
    {
      say: () => undefined,
      onFatal: (error) => {
        fatal ??= error
      },
      onTraining({ phase }) {
        if (phase === 'sealed') {
          windows.push({ from: now(), to: Infinity })
          busyDelay.enable()
        } else if (phase === 'failed') over()
      },
      onVerdict({ version }) {
        over()
        if (version === null) rejected += 1
      },
    },
  )
  try {
    await pipeline.settled()
    say(`${idleSeconds} s at ${PER_SECOND} requests/s without learning`)
    await crowd({ url: pipeline.url, seconds: 5, perSecond: PER_SECOND, learn: false, seed: 1 })
    idleDelay.enable()
    const idle = await crowd({ url: pipeline.url, seconds: idleSeconds, perSecond: PER_SECOND, learn: false, seed: 2 })
    idleDelay.disable()
    say(`${learnSeconds} s at ${PER_SECOND} requests/s with learning`)
    const learning = await crowd({
      url: pipeline.url,
      seconds: learnSeconds,
      perSecond: PER_SECOND,
      learn: true,
      seed: 3,
    })
    await pipeline.settled()
    if (fatal) throw fatal as Error
    const served = await untilServed(pipeline.log, learning.asked)
    const latest = learning.asked.reduce((most, { version }) => Math.max(most, version), 0)
    say(`${latest} versions; rollbacks at ${PER_SECOND} requests/s`)
    const count = options.quick ? 6 : ROLLBACKS
    const load = crowd({ url: pipeline.url, seconds: count, perSecond: PER_SECOND, learn: false, seed: 4 })
    const back = latest > 0 ? await rollbacks(pipeline, adminToken(adminTokenIn(data)), count, latest) : []
    const background = await load
    const wait = ({ due, first }: Asked): number => first - due
    const during = learning.asked.filter(({ due, first }) => windows.some(({ from, to }) => due < to && first > from))
    const idleWaits = idle.asked.map(wait)
    const limit = quantile(idleWaits, 0.99) + 100
    return {
      name: 'latency',
      machine: where,
      versions: latest,
      rejected,
      requests: [idle, learning, background].reduce((sum, { asked, failed }) => sum + asked.length + failed, 0),
      failed: idle.failed + learning.failed + background.failed,
      rows: [
        row('last turn of a batch → first token of the new version', served, {
          text: 'p50 < 3000 ms',
          reached: (p50) => p50 < 3000,
        }),
        row('rollback → first token of the old version', back, { text: 'p50 < 1000 ms', reached: (p50) => p50 < 1000 }),
        row('time to first token, idle', idleWaits, null),
        row('time to first token, while an update is computed or measured', during.map(wait), {
          text: `p99 ≤ ${Math.round(limit)} ms (idle + 100)`,
          reached: (_, p99) => p99 <= limit,
        }),
        row('time to first token, whole run with learning', learning.asked.map(wait), null),
        row(
          'update: sealed → verdict',
          windows.map(({ from, to }) => to - from),
          null,
        ),
        delays('event loop delay, idle', idleDelay, null),
        delays('event loop delay, while an update is computed or measured', busyDelay, 50),
      ],
    }
  } finally {
    await pipeline.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const report = await bench({
    quick: process.argv.includes('--quick'),
    say: (line) => {
      console.error(line)
    },
  })
  if (process.argv.includes('--json')) console.log(JSON.stringify(report))
  else {
    console.log(
      `${report.machine}; ${report.requests} requests, ${report.failed} failed; ${report.versions} versions, ${report.rejected} rejected`,
    )
    console.table(report.rows)
  }
}
