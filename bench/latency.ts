/**
 * The whole pipeline in one process with the tiny model, under 4 requests per second: time from a batch to its served
 * version, time of a rollback, and the effect of learning on the time to the first token. Times in milliseconds.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { decodeRecord, type Event } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { adminToken } from '@instar/process/admin-token'
import type { EventLog } from '@instar/log'
import { adminTokenIn } from '@instar/process'
import { startPipeline, type Pipeline } from '../cli/src/pipeline.ts'
import { machine, median, quantile, rounded } from './machine.ts'
import { runUserLoad, streamCompletion, type RequestTiming } from './simulated-users.ts'

const MODEL = resolve(import.meta.dirname, '../models/tiny')
const PER_SECOND = 4
const ROLLBACKS = 20
/** Interval of the event loop histogram, which is subtracted from its values. */
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
type LatencyOptions = { quick?: boolean; logLine?: (line: string) => void }

type Interval = { from: number; to: number }
const now = (): number => performance.timeOrigin + performance.now()

async function* readEvents(log: EventLog, topic: Topic): AsyncGenerator<{ id: string; event: Event }> {
  for await (const batch of log.read(topic)) for (const record of batch) yield decodeRecord(record)
}

/** For each trained version: time from the end of the last turn of its batch to the first token that it served. */
const turnToServed = async (log: EventLog, requests: readonly RequestTiming[]): Promise<number[]> => {
  const finished = new Map<string, number>()
  const causes = new Map<string, string>()
  const batches = new Map<string, number>()
  const updates = new Map<string, string>()
  for await (const { event } of readEvents(log, 'turns'))
    if (event.type === 'TurnCaptured') finished.set(event.turn, event.finishedAt)
  for await (const { id, event } of readEvents(log, 'scores'))
    if (event.type === 'TurnScored') causes.set(id, event.cause)
  for await (const { id, event } of readEvents(log, 'updates')) {
    if (event.type === 'BatchSealed')
      batches.set(id, Math.max(...event.items.map(({ score }) => finished.get(causes.get(score) ?? '') ?? Number.NaN)))
    if (event.type === 'UpdateComputed') updates.set(id, event.batch)
  }
  const times: number[] = []
  for await (const { event } of readEvents(log, 'weights')) {
    if (event.type !== 'VersionPublished') continue
    const lastTurnAt = batches.get(updates.get(event.update) ?? '')
    const served = requests.filter(({ version }) => version === event.number).map(({ first }) => first)
    if (lastTurnAt === undefined || !Number.isFinite(lastTurnAt))
      throw new Error(`the log has no turns of the batch of version ${event.number}`)
    if (served.length > 0) times.push(Math.min(...served) - lastTurnAt)
  }
  return times
}

/** Time from a rollback command to the first token of the earlier version, requested once the command has returned. */
const measureRollbacks = async ({ url }: Pipeline, token: string, count: number, latest: number): Promise<number[]> => {
  const times: number[] = []
  for (let at = 0; at < count; at++) {
    const version = at % 2 === 0 ? Math.max(0, latest - 1 - (at % latest)) : latest
    const startedAt = now()
    const reply = await fetch(`${url}/admin/rollback`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-instar-admin-token': token },
      body: JSON.stringify({ version }),
    })
    if (!reply.ok)
      throw new Error(`the rollback to version ${version} failed: HTTP ${reply.status} ${await reply.text()}`)
    const answer = await streamCompletion(url, [{ role: 'user', content: 'What is 3 plus 4?' }])
    if (answer.version !== version) throw new Error(`version ${answer.version} answered after a rollback to ${version}`)
    times.push(answer.first - startedAt)
  }
  return times
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

const delayRow = (
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
  const logLine = options.logLine ?? (() => undefined)
  const measuredOn = machine()
  const data = mkdtempSync(join(tmpdir(), 'instar-bench-'))
  const [idleSeconds, learnSeconds] = options.quick ? [10, 40] : [60, 240]
  const idleDelay = monitorEventLoopDelay({ resolution: TICK_MS })
  const updateDelay = monitorEventLoopDelay({ resolution: TICK_MS })
  const updates: Interval[] = []
  let fatal: Error | null = null
  let rejected = 0
  const endUpdate = (): void => {
    updateDelay.disable()
    const update = updates.at(-1)
    if (update) update.to = Math.min(update.to, now())
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
      logLine: () => undefined,
      onFatal: (error) => {
        fatal ??= error
      },
      onTraining({ phase }) {
        if (phase === 'sealed') {
          updates.push({ from: now(), to: Infinity })
          updateDelay.enable()
        } else if (phase === 'failed') endUpdate()
      },
      onVerdict({ version }) {
        endUpdate()
        if (version === null) rejected += 1
      },
    },
  )
  try {
    await pipeline.settled()
    logLine(`${idleSeconds} s at ${PER_SECOND} requests/s without learning`)
    await runUserLoad({ url: pipeline.url, seconds: 5, perSecond: PER_SECOND, learn: false, seed: 1 })
    idleDelay.enable()
    const idle = await runUserLoad({
      url: pipeline.url,
      seconds: idleSeconds,
      perSecond: PER_SECOND,
      learn: false,
      seed: 2,
    })
    idleDelay.disable()
    logLine(`${learnSeconds} s at ${PER_SECOND} requests/s with learning`)
    const learning = await runUserLoad({
      url: pipeline.url,
      seconds: learnSeconds,
      perSecond: PER_SECOND,
      learn: true,
      seed: 3,
    })
    await pipeline.settled()
    if (fatal) throw fatal as Error
    const served = await turnToServed(pipeline.log, learning.requests)
    const latest = learning.requests.reduce((most, { version }) => Math.max(most, version), 0)
    logLine(`${latest} versions; rollbacks at ${PER_SECOND} requests/s`)
    const count = options.quick ? 6 : ROLLBACKS
    const load = runUserLoad({ url: pipeline.url, seconds: count, perSecond: PER_SECOND, learn: false, seed: 4 })
    const rollbacks = latest > 0 ? await measureRollbacks(pipeline, adminToken(adminTokenIn(data)), count, latest) : []
    const background = await load
    const timeToFirstToken = ({ due, first }: RequestTiming): number => first - due
    const duringUpdate = learning.requests.filter(({ due, first }) =>
      updates.some(({ from, to }) => due < to && first > from),
    )
    const idleTimes = idle.requests.map(timeToFirstToken)
    const limit = quantile(idleTimes, 0.99) + 100
    return {
      name: 'latency',
      machine: measuredOn,
      versions: latest,
      rejected,
      requests: [idle, learning, background].reduce((sum, { requests, failed }) => sum + requests.length + failed, 0),
      failed: idle.failed + learning.failed + background.failed,
      rows: [
        row('last turn of a batch → first token of the new version', served, {
          text: 'p50 < 3000 ms',
          reached: (p50) => p50 < 3000,
        }),
        row('rollback → first token of the old version', rollbacks, {
          text: 'p50 < 1000 ms',
          reached: (p50) => p50 < 1000,
        }),
        row('time to first token, idle', idleTimes, null),
        row('time to first token, while an update is computed or measured', duringUpdate.map(timeToFirstToken), {
          text: `p99 ≤ ${Math.round(limit)} ms (idle + 100)`,
          reached: (_, p99) => p99 <= limit,
        }),
        row('time to first token, whole run with learning', learning.requests.map(timeToFirstToken), null),
        row(
          'update: sealed → verdict',
          updates.map(({ from, to }) => to - from),
          null,
        ),
        delayRow('event loop delay, idle', idleDelay, null),
        delayRow('event loop delay, while an update is computed or measured', updateDelay, 50),
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
    logLine: (line) => {
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
