/**
 * What each service bears on Kafka, and what capturing costs an answer there. Every service is a process of its own
 * on one broker (its topics flushed to disk at each batch, as `setup` makes them); the gateway's engine costs nothing,
 * the rest is real: model, judge, update, gate, PostgreSQL.
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
import { startService, type Place, type Running, type Service, type Used } from './services/process.ts'
import { busily, steadily } from './services/talk.ts'

const MODEL = join(ROOT, 'models/tiny')
const CALLERS = 64
const PER_SECOND = 20

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
type ServicesOptions = { quick?: boolean; say?: (line: string) => void }

const none = { perSecond: null, cpuMsPerTurn: null, p50: null, p99: null, megabytes: null, bytesPerTurn: null }

/** A service that works through what is on the log: from its start until it is done. */
const backlog = (service: Service, turns: number, { seconds, cpuSeconds, megabytes }: Used): Row => ({
  ...none,
  what: `${service}: a backlog of turns`,
  count: turns,
  perSecond: rounded(turns / seconds),
  cpuMsPerTurn: rounded((1000 * cpuSeconds) / turns),
  megabytes: Math.round(megabytes),
})

/** Milliseconds between the engine's last token and the end of the answer, in rounds that take turns. */
const captureWaits = async (
  gateways: ReadonlyMap<string, Running>,
  rounds: number,
  seconds: number,
  say: (line: string) => void,
): Promise<Row[]> => {
  const waits = new Map<string, number[]>([...gateways.keys()].map((what) => [what, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [what, gateway] of gateways) {
      const said = await steadily(gateway.url, PER_SECOND, seconds)
      const tokens = await gateway.lastTokens()
      const found = said.map(({ seed, endedAt }) => endedAt - tokens.get(seed)!)
      say(
        `${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${what}: ${median(found).toFixed(1)} ms, p99 ${quantile(found, 0.99).toFixed(1)} ms`,
      )
      if (round >= 0) waits.get(what)!.push(...found)
    }
  }
  return [...waits].map(([what, found]) => ({
    ...none,
    what: `last token → end of the answer: ${what}`,
    count: found.length,
    p50: rounded(median(found)),
    p99: rounded(quantile(found, 0.99)),
  }))
}

/** Rounds of as many turns as it can take from those who ask one after another. */
const captures = async (
  what: string,
  gateway: Running,
  rounds: number,
  turns: number,
): Promise<{ row: Row; said: number }> => {
  const rates: number[] = []
  const cpu: number[] = []
  let [said, megabytes] = [0, 0]
  for (let round = -1; round < rounds; round++) {
    const before = await gateway.used()
    const count = (await busily(gateway.url, CALLERS, turns)).length
    const after = await gateway.used()
    said += count
    megabytes = after.megabytes
    if (round < 0) continue
    rates.push(count / (after.seconds - before.seconds))
    cpu.push((1000 * (after.cpuSeconds - before.cpuSeconds)) / count)
  }
  return {
    said,
    row: {
      ...none,
      what: `gateway: turns captured, ${CALLERS} callers, ${what}`,
      count: said,
      perSecond: rounded(median(rates)),
      cpuMsPerTurn: rounded(median(cpu)),
      megabytes: Math.round(megabytes),
    },
  }
}

/** Resolves with when each verdict was given, and how many turns its batch had. */
const verdicts = async (
  log: EventLog,
  wanted: number,
): Promise<{ at: number; turns: number; sealedAt: number; computedAt: number }[]> => {
  const batches = new Map<string, { at: number; turns: number }>()
  const updates = new Map<string, { batch: string; at: number }>()
  const found: { update: string; at: number }[] = []
  const enough = Promise.withResolvers<void>()
  const subscription = await log.subscribe({
    topics: ['updates', 'weights'],
    group: 'bench',
    from: 'start',
    handle(records) {
      for (const record of records) {
        const { id, event } = decodeRecord(record)
        if (event.type === 'BatchSealed') batches.set(id, { at: event.at, turns: event.items.length })
        if (event.type === 'UpdateComputed') updates.set(id, { batch: event.batch, at: event.at })
        if (event.type === 'UpdateFailed') enough.reject(new Error(`an update failed: ${event.reason}`))
        if (event.type === 'VersionPublished' || event.type === 'VersionRejected')
          found.push({ update: event.update, at: event.at })
        if (found.length >= wanted) enough.resolve()
      }
    },
  })
  await Promise.race([enough.promise, subscription.done])
  await subscription.stop()
  return found.map(({ update, at }) => {
    const computed = updates.get(update)!
    const { at: sealedAt, turns } = batches.get(computed.batch)!
    return { at, turns, sealedAt, computedAt: computed.at }
  })
}

/** What the broker's files hold of a topic. */
const bytesOf = async (folder: string, topic: string): Promise<number> => {
  let bytes = 0
  for await (const file of glob(`${topic}-*/*.log`, { cwd: folder })) bytes += (await stat(join(folder, file))).size
  return bytes
}

export const bench = async ({ quick = false, say = () => undefined }: ServicesOptions = {}): Promise<Report> => {
  const [rounds, seconds, turns, batches] = quick ? [1, 4, 400, 2] : [5, 10, 2_000, 8]
  const folder = await temporaryFolder()
  const running: Running[] = []
  const started = async (service: Service, place: Place): Promise<Running> => {
    const one = await startService(service, place)
    running.push(one)
    return one
  }
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const prefix = 'bench.'
    await setupKafka({ brokers, prefix })
    const scratch = async (name: string): Promise<string> => {
      const path = join(folder.path, name)
      await mkdir(path, { mode: 0o711 })
      return path
    }
    const kafka = async (name: string): Promise<Place> => ({
      log: 'kafka',
      brokers,
      prefix,
      model: MODEL,
      scratch: await scratch(name),
    })
    const rows: Row[] = []
    const gateways = new Map<string, Running>([
      [
        'a log in memory',
        await started('gateway', { log: 'memory', model: MODEL, scratch: await scratch('gateway-memory') }),
      ],
      [
        'the embedded log',
        await started('gateway', {
          log: 'embedded',
          folder: await scratch('embedded'),
          model: MODEL,
          scratch: await scratch('gateway-embedded'),
        }),
      ],
      ['Kafka', await started('gateway', await kafka('gateway'))],
    ])
    rows.push(...(await captureWaits(gateways, rounds, seconds, say)))
    for (const [what, gateway] of gateways) {
      const { row } = await captures(what, gateway, quick ? 1 : 3, turns)
      say(`${row.what}: ${String(row.perSecond)}/s`)
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
    const replica = await started('gateway', await kafka('gateway-again'))
    rows.push({
      ...backlog('gateway', captured, await replica.used()),
      what: 'gateway: that log from its start: what a replica reads',
    })
    await replica.stop()
    const scorer = await started('scorer', await kafka('scorer'))
    rows.push(backlog('scorer', captured, await scorer.settled()))
    await scorer.stop()
    say('scored')
    const again = await started('scorer', await kafka('scorer-again'))
    rows.push({
      ...backlog('scorer', captured, await again.settled()),
      what: 'scorer: the same log, all scored: what a replica reads',
    })
    await again.stop()
    const projections = await started('projections', await kafka('projections'))
    rows.push(backlog('projections', captured, await projections.settled()))
    await projections.stop()
    say('in PostgreSQL')
    const learning = new Map([
      ['trainer', await started('trainer', await kafka('trainer'))],
      ['publisher', await started('publisher', await kafka('publisher'))],
    ] as const)
    const before = new Map(
      await Promise.all([...learning].map(async ([name, one]) => [name, await one.used()] as const)),
    )
    const found = await verdicts(log, batches)
    const learned = found.reduce((sum, verdict) => sum + verdict.turns, 0)
    const took = {
      trainer: found.map(({ sealedAt, computedAt }) => computedAt - sealedAt),
      publisher: found.map(({ computedAt, at }) => at - computedAt),
    }
    for (const [name, one] of learning) {
      const used = await one.used()
      const ms = took[name]
      rows.push({
        ...none,
        what: name === 'trainer' ? 'trainer: sealed → computed, a batch' : 'publisher: computed → verdict',
        count: ms.length,
        p50: rounded(median(ms)),
        p99: rounded(quantile(ms, 0.99)),
        cpuMsPerTurn: rounded((1000 * (used.cpuSeconds - before.get(name)!.cpuSeconds)) / learned),
        megabytes: Math.round(used.megabytes),
        perSecond: rounded((1000 * learned) / ms.reduce((sum, one) => sum + one, 0)),
      })
    }
    const span = found.at(-1)!.at - found[0]!.sealedAt
    rows.push({
      ...none,
      what: 'trainer and publisher: turns learned from, end to end',
      count: learned,
      perSecond: rounded((1000 * learned) / span),
    })
    for (const one of running.splice(0)) await one.stop()
    await log.close()
    for (const topic of TOPICS) {
      const bytes = await bytesOf(join(folder.path, 'kafka/node-1/data'), `${prefix}${topic}`)
      const per = topic === 'turns' || topic === 'scores' ? captured : learned
      rows.push({
        ...none,
        what: `on disk, ${topic}: bytes of a turn ${per === captured ? 'captured' : 'learned from'}`,
        count: per,
        bytesPerTurn: Math.round(bytes / per),
      })
    }
    return { name: 'services on Kafka', machine: machine(), rows }
  } finally {
    for (const one of running) await one.stop()
    await killAll()
    await folder.remove()
  }
}

if (import.meta.main) {
  const report = await bench({
    quick: process.argv.includes('--quick'),
    say: (line) => {
      console.error(line)
    },
  })
  console.log(report.machine)
  console.table(report.rows)
}
