/**
 * What 64 partitions of `turns` cost instead of 8, on three brokers with three copies: appends under load, reading from the start,
 * and following at 50 records a second, where a fetch brings a record or two. Both in each round, in turns, as ratio.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import { killAll } from '../test/kit/stack/guarded.ts'
import { startKafka } from '../test/kit/stack/kafka.ts'
import { temporaryFolder } from '../test/kit/stack.ts'
import { readUsage } from './gateway/process.ts'
import { KEYS, RECORD_BYTES, startClient, type ClientProcess, type TopicAddress } from './kafka/client.ts'
import { randomText } from './kafka/text.ts'
import { machine, median, rounded } from './machine.ts'

/** `of8`, `of64`: medians; `ratio`: median of the ratios of the rounds. */
export type Row = { what: string; of8: number; of64: number; ratio: number }
export type Report = { name: string; machine: string; rounds: number; rows: Row[] }
export type PartitionsOptions = { quick?: boolean; logLine?: (line: string) => void; rounds?: number }

const COUNTS = [8, 64] as const
const CALLERS = 256
const PER_SECOND = 50

type Figures = Record<string, number>

/** Appends at `PER_SECOND` while a process follows; CPU of that process and of the brokers, ms a record. */
const follow = async (address: TopicAddress, brokerPids: readonly number[], seconds: number): Promise<Figures> => {
  const { brokers, prefix } = address
  const child = fork(join(import.meta.dirname, 'kafka/follower.ts'), [brokers.join(','), prefix], {
    env: { ...process.env, NODE_ENV: 'production' },
  })
  await once(child, 'message')
  const ask = async (): Promise<{ cpuMs: number; records: number }> => {
    const answer = once(child, 'message')
    child.send('cpu')
    return ((await answer) as [{ cpuMs: number; records: number }])[0]
  }
  const schema = 'Bench.v1'
  const log = await openKafkaLog({
    brokers,
    prefix,
    clientId: 'bench',
    registry: new Map([[schema, 1]]),
    schemas: { [schema]: '"bytes"' },
  })
  const payload = randomText(RECORD_BYTES)
  const append = async (count: number, times: number[] = []): Promise<number[]> => {
    const calls: Promise<unknown>[] = []
    for (let i = 0; i < count; i += 1) {
      const at = performance.now()
      calls.push(
        log
          .append([{ topic: 'turns', key: KEYS[(i * 13) % KEYS.length]!, schema, payload, timestamp: Date.now() }])
          .then(() => times.push(performance.now() - at)),
      )
      await pause(1000 / PER_SECOND)
    }
    await Promise.all(calls)
    return times
  }
  await append(100)
  await ask()
  const before = await cpuOf(brokerPids)
  const begin = performance.now()
  const times = await append(seconds * PER_SECOND)
  const { cpuMs, records } = await ask()
  const wall = (performance.now() - begin) / 1000
  const brokerMs = (await cpuOf(brokerPids)) - before
  await pause(0)
  const quiet = await idle(ask)
  child.disconnect()
  await log.close()
  return {
    [`following ${PER_SECOND} records/s: CPU of the reader, ms a record`]: cpuMs / records,
    [`following ${PER_SECOND} records/s: CPU of the three brokers, ms a record`]: brokerMs / records,
    [`append at ${PER_SECOND} records/s, p50, ms`]: median(times),
    'a reader without records: CPU, ms a second': quiet,
    'records/s that were reached': records / wall,
  }
}

const IDLE_S = 5
const idle = async (ask: () => Promise<{ cpuMs: number }>): Promise<number> => {
  await ask()
  await pause(1000 * IDLE_S)
  return (await ask()).cpuMs / IDLE_S
}

const cpuOf = async (pids: readonly number[]): Promise<number> =>
  (await Promise.all(pids.map(readUsage))).reduce((sum, { cpuMs }) => sum + cpuMs, 0)

const measure = async (
  client: ClientProcess,
  { address, brokerPids, records, seconds }: Place & { address: TopicAddress },
): Promise<Figures> => {
  const before = await cpuOf(brokerPids)
  const produced = await client.run(address, { task: 'produce', records, callers: CALLERS, perCall: 1 })
  const brokerMs = (await cpuOf(brokerPids)) - before
  const consumed = await client.run(address, { task: 'consume', records })
  const followed = await follow(address, brokerPids, seconds)
  return {
    [`appends/s of ${CALLERS} callers`]: records / produced.seconds,
    'append, p50, ms': produced.p50,
    'append, p99, ms': produced.p99,
    'CPU of the writer, µs a record': (1e6 * produced.cpuSeconds) / records,
    'CPU of the three brokers, µs a record': (1000 * brokerMs) / records,
    'reading from the start, records/s': records / consumed.seconds,
    'CPU of that reader, µs a record': (1e6 * consumed.cpuSeconds) / records,
    ...followed,
  }
}

type Place = { brokerPids: readonly number[]; records: number; seconds: number }

const removeTopics = async (admin: Admin, prefix: string): Promise<void> => {
  await admin.deleteTopics({ topics: (await admin.listTopics()).filter((topic) => topic.startsWith(prefix)) })
}

export const bench = async (options: PartitionsOptions = {}): Promise<Report> => {
  const { quick = false, logLine = () => undefined, rounds = quick ? 1 : 5 } = options
  const [records, seconds] = quick ? [10_000, 4] : [50_000, 15]
  const folder = await temporaryFolder()
  const client = startClient(new URL('./kafka/instar.ts', import.meta.url).href)
  const samples: Record<(typeof COUNTS)[number], Figures[]> = { 8: [], 64: [] }
  try {
    const { brokers, nodes } = await startKafka({ folder: join(folder.path, 'kafka'), nodes: 3 })
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const brokerPids = nodes.map(({ pid }) => pid())
    // The first round only warms up.
    for (let round = -1; round < rounds; round += 1) {
      for (const count of round % 2 === 0 ? COUNTS : COUNTS.toReversed()) {
        const prefix = `p${round + 1}.${count}.`
        await setupKafka({ brokers, prefix, replication: 3, partitions: { turns: count } })
        const address = { brokers, prefix, topic: `${prefix}turns` }
        const figures = await measure(client, { address, brokerPids, records, seconds })
        logLine(`${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${count} partitions: ${JSON.stringify(figures)}`)
        if (round >= 0) samples[count].push(figures)
        await removeTopics(admin, prefix)
      }
    }
    await admin.disconnect()
  } finally {
    client.stop()
    await killAll()
    await folder.remove()
  }
  const rows = Object.keys(samples[8][0]!).map((what) => {
    const [of8, of64] = COUNTS.map((count) => samples[count].map((figures) => figures[what]!)) as [number[], number[]]
    return {
      what,
      of8: rounded(median(of8)),
      of64: rounded(median(of64)),
      ratio: rounded(median(of64.map((value, i) => value / of8[i]!))),
    }
  })
  return { name: 'partitions', machine: machine(), rounds, rows }
}
