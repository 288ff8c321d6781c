/**
 * Throughput of each service on Kafka, and the latency that capturing adds to an answer. Each service is a process, on
 * one broker with the topic settings of `instar setup` (each batch flushed to disk). The gateway's engine does not
 * compute; model, judge, update, gate and PostgreSQL are real.
 */
import { glob, mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeRecord, schemaTexts, TOPICS } from '@instar/events'
import type { EventLog } from '@instar/log'
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { killAll } from '../test/kit/stack/guarded.ts'
import { FULL_JVM, startKafka } from '../test/kit/stack/kafka.ts'
import { temporaryFolder } from '../test/kit/stack.ts'
import { ROOT } from '../tools/tree.ts'
import { machine, median, quantile, rounded } from './machine.ts'
import { runClosedLoop, runOpenLoop } from './services/load.ts'
import { startService, type Service, type ServiceConfig, type ServiceProcess, type Usage } from './services/process.ts'

const MODEL = join(ROOT, 'models/tiny')
/** Concurrent conversations of the closed loop. */
const CALLERS = 64
/** Turns per second of the open loop. */
const PER_SECOND = 20

/** `count`: of turns, or of what the row names. `p50`, `p99`: ms. `megabytes`: largest resident set. */
export type Row = {
  what: string
  count: number
  perSecond: number | null
  cpuMsPerTurn: number | null
  p50: number | null
  p99: number | null
  megabytes: number | null
  bytesPerTurn: number | null
}
export type Report = { name: string; machine: string; rows: Row[] }
type ServicesOptions = { quick?: boolean; logLine?: (line: string) => void }

const EMPTY = { perSecond: null, cpuMsPerTurn: null, p50: null, p99: null, megabytes: null, bytesPerTurn: null }

/** A service that processes the turns on the log, from its start until it is settled. */
const backlogRow = (service: Service, turns: number, { seconds, cpuSeconds, megabytes }: Usage): Row => ({
  ...EMPTY,
  what: `${service}: a backlog of turns`,
  count: turns,
  perSecond: rounded(turns / seconds),
  cpuMsPerTurn: rounded((1000 * cpuSeconds) / turns),
  megabytes: Math.round(megabytes),
})

/** Time between the engine's last token and the end of the answer, ms, in interleaved rounds. */
const measureCaptureLatency = async (
  gateways: ReadonlyMap<string, ServiceProcess>,
  rounds: number,
  seconds: number,
  logLine: (line: string) => void,
): Promise<Row[]> => {
  const latencies = new Map<string, number[]>([...gateways.keys()].map((what) => [what, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [what, gateway] of gateways) {
      const timings = await runOpenLoop(gateway.url, PER_SECOND, seconds)
      const lastTokens = await gateway.lastTokens()
      const measured = timings.map(({ seed, endedAt }) => endedAt - lastTokens.get(seed)!)
      logLine(
        `${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${what}: ${median(measured).toFixed(1)} ms, p99 ${quantile(measured, 0.99).toFixed(1)} ms`,
      )
      if (round >= 0) latencies.get(what)!.push(...measured)
    }
  }
  return [...latencies].map(([what, values]) => ({
    ...EMPTY,
    what: `last token → end of the answer: ${what}`,
    count: values.length,
    p50: rounded(median(values)),
    p99: rounded(quantile(values, 0.99)),
  }))
}

/** Turns captured per second in a closed loop; medians of the rounds. */
const measureCapturing = async (what: string, gateway: ServiceProcess, rounds: number, turns: number): Promise<Row> => {
  const rates: number[] = []
  const cpu: number[] = []
  let [total, megabytes] = [0, 0]
  for (let round = -1; round < rounds; round++) {
    const before = await gateway.usage()
    const count = (await runClosedLoop(gateway.url, CALLERS, turns)).length
    const after = await gateway.usage()
    total += count
    megabytes = after.megabytes
    if (round < 0) continue
    rates.push(count / (after.seconds - before.seconds))
    cpu.push((1000 * (after.cpuSeconds - before.cpuSeconds)) / count)
  }
  return {
    ...EMPTY,
    what: `gateway: turns captured, ${CALLERS} callers, ${what}`,
    count: total,
    perSecond: rounded(median(rates)),
    cpuMsPerTurn: rounded(median(cpu)),
    megabytes: Math.round(megabytes),
  }
}

type VerdictTiming = { at: number; turns: number; sealedAt: number; computedAt: number }

/** Resolves with the times of the first `count` verdicts, ms since the epoch, and the turns of their batches. */
const readVerdicts = async (log: EventLog, count: number): Promise<VerdictTiming[]> => {
  const batches = new Map<string, { at: number; turns: number }>()
  const updates = new Map<string, { batch: string; at: number }>()
  const verdicts: { update: string; at: number }[] = []
  const complete = Promise.withResolvers<void>()
  const subscription = await log.subscribe({
    topics: ['updates', 'weights'],
    group: 'bench',
    from: 'start',
    handle(records) {
      for (const record of records) {
        const { id, event } = decodeRecord(record)
        if (event.type === 'BatchSealed') batches.set(id, { at: event.at, turns: event.items.length })
        if (event.type === 'UpdateComputed') updates.set(id, { batch: event.batch, at: event.at })
        if (event.type === 'UpdateFailed') complete.reject(new Error(`an update failed: ${event.reason}`))
        if (event.type === 'VersionPublished' || event.type === 'VersionRejected')
          verdicts.push({ update: event.update, at: event.at })
        if (verdicts.length >= count) complete.resolve()
      }
    },
  })
  await Promise.race([complete.promise, subscription.done])
  await subscription.stop()
  return verdicts.map(({ update, at }) => {
    const computed = updates.get(update)!
    const { at: sealedAt, turns } = batches.get(computed.batch)!
    return { at, turns, sealedAt, computedAt: computed.at }
  })
}

/** Size of the broker's files of a topic. */
const bytesOf = async (folder: string, topic: string): Promise<number> => {
  let bytes = 0
  for await (const file of glob(`${topic}-*/*.log`, { cwd: folder })) bytes += (await stat(join(folder, file))).size
  return bytes
}

export const bench = async ({ quick = false, logLine = () => undefined }: ServicesOptions = {}): Promise<Report> => {
  const [rounds, seconds, turns, batches] = quick ? [1, 4, 400, 2] : [5, 10, 2_000, 8]
  const folder = await temporaryFolder()
  const running: ServiceProcess[] = []
  const start = async (service: Service, config: ServiceConfig): Promise<ServiceProcess> => {
    const process = await startService(service, config)
    running.push(process)
    return process
  }
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const prefix = 'bench.'
    await setupKafka({ brokers, prefix })
    const createScratch = async (name: string): Promise<string> => {
      const path = join(folder.path, name)
      await mkdir(path, { mode: 0o711 })
      return path
    }
    const onKafka = async (name: string): Promise<ServiceConfig> => ({
      log: 'kafka',
      brokers,
      prefix,
      model: MODEL,
      scratch: await createScratch(name),
    })
    const rows: Row[] = []
    const gateways = new Map<string, ServiceProcess>([
      [
        'a log in memory',
        await start('gateway', { log: 'memory', model: MODEL, scratch: await createScratch('gateway-memory') }),
      ],
      [
        'the embedded log',
        await start('gateway', {
          log: 'embedded',
          folder: await createScratch('embedded'),
          model: MODEL,
          scratch: await createScratch('gateway-embedded'),
        }),
      ],
      ['Kafka', await start('gateway', await onKafka('gateway'))],
    ])
    rows.push(...(await measureCaptureLatency(gateways, rounds, seconds, logLine)))
    for (const [what, gateway] of gateways) {
      const row = await measureCapturing(what, gateway, quick ? 1 : 3, turns)
      logLine(`${row.what}: ${String(row.perSecond)}/s`)
      rows.push(row)
    }
    for (const gateway of running.splice(0)) await gateway.stop()
    const schemas = schemaTexts()
    const log = await openKafkaLog({
      brokers,
      prefix,
      clientId: 'bench',
      schemas,
      registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
    })
    let captured = 0
    for await (const batch of log.read('turns')) captured += batch.length
    const replica = await start('gateway', await onKafka('gateway-replica'))
    rows.push({
      ...backlogRow('gateway', captured, await replica.usage()),
      what: 'gateway: start of a replica on the same log',
    })
    await replica.stop()
    const scorer = await start('scorer', await onKafka('scorer'))
    rows.push(backlogRow('scorer', captured, await scorer.settled()))
    await scorer.stop()
    logLine('every turn is scored')
    const scorerReplica = await start('scorer', await onKafka('scorer-replica'))
    rows.push({
      ...backlogRow('scorer', captured, await scorerReplica.settled()),
      what: 'scorer: start of a replica on the same log, every turn scored',
    })
    await scorerReplica.stop()
    const projections = await start('projections', await onKafka('projections'))
    rows.push(backlogRow('projections', captured, await projections.settled()))
    await projections.stop()
    logLine('every turn is in PostgreSQL')
    const learning = new Map([
      ['trainer', await start('trainer', await onKafka('trainer'))],
      ['publisher', await start('publisher', await onKafka('publisher'))],
    ] as const)
    const before = new Map(
      await Promise.all([...learning].map(async ([name, process]) => [name, await process.usage()] as const)),
    )
    const verdicts = await readVerdicts(log, batches)
    const learned = verdicts.reduce((sum, verdict) => sum + verdict.turns, 0)
    const times = {
      trainer: verdicts.map(({ sealedAt, computedAt }) => computedAt - sealedAt),
      publisher: verdicts.map(({ computedAt, at }) => at - computedAt),
    }
    for (const [name, process] of learning) {
      const usage = await process.usage()
      const ms = times[name]
      rows.push({
        ...EMPTY,
        what: name === 'trainer' ? 'trainer: sealed → computed, a batch' : 'publisher: computed → verdict',
        count: ms.length,
        p50: rounded(median(ms)),
        p99: rounded(quantile(ms, 0.99)),
        cpuMsPerTurn: rounded((1000 * (usage.cpuSeconds - before.get(name)!.cpuSeconds)) / learned),
        megabytes: Math.round(usage.megabytes),
        perSecond: rounded((1000 * learned) / ms.reduce((sum, value) => sum + value, 0)),
      })
    }
    const elapsedMs = verdicts.at(-1)!.at - verdicts[0]!.sealedAt
    rows.push({
      ...EMPTY,
      what: 'trainer and publisher: trained turns, end to end',
      count: learned,
      perSecond: rounded((1000 * learned) / elapsedMs),
    })
    for (const process of running.splice(0)) await process.stop()
    await log.close()
    for (const topic of TOPICS) {
      const bytes = await bytesOf(join(folder.path, 'kafka/node-1/data'), `${prefix}${topic}`)
      const turnCount = topic === 'turns' || topic === 'scores' ? captured : learned
      rows.push({
        ...EMPTY,
        what: `on disk, ${topic}: bytes of a turn ${turnCount === captured ? 'captured' : 'trained on'}`,
        count: turnCount,
        bytesPerTurn: Math.round(bytes / turnCount),
      })
    }
    return { name: 'services on Kafka', machine: machine(), rows }
  } finally {
    for (const process of running) await process.stop()
    await killAll()
    await folder.remove()
  }
}

if (import.meta.main) {
  const report = await bench({
    quick: process.argv.includes('--quick'),
    logLine: (line) => {
      console.error(line)
    },
  })
  console.log(report.machine)
  console.table(report.rows)
}
