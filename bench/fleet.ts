/**
 * What a fleet costs: n gateways and n scorers, a trainer, a publisher and projections as processes on one broker, for
 * n = 1, 2 and 4, with the same simulated days of conversations. CPU of each service per turn, memory, snapshots, and by
 * the log what was lost, doubled or not recognised; then a model of it (fleet/model.ts), fitted on n = 1 and 2, checked
 * against n = 4 and extended on paper.
 *
 * A day of 24 h is compressed into `daySeconds` by a clock that all processes share; timers of Kafka and of snapshots
 * run in real time. Compressed, most waits are shorter than what a gateway reads late; `leastGapMs` keeps them longer. The engine answers at once, each time with another text; learning is frozen.
 */
import { readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { followEvents } from '@instar/log'
import { killAll } from '../test/kit/stack/guarded.ts'
import { FULL_JVM, startKafka } from '../test/kit/stack/kafka.ts'
import { temporaryFolder } from '../test/kit/stack.ts'
import { DAY_MS, GAPS, simulatedAt, simulatedDay, type Clock } from './fleet/day.ts'
import { driveDay } from './fleet/drive.ts'
import { countsOf, enter, initialLedger, isScored, recallOf, type Answered } from './fleet/ledger.ts'
import { rowsOf, type Measured, type Round, type Row } from './fleet/report.ts'
import { startStack, type FleetStack } from './fleet/stack.ts'
import { machine } from './machine.ts'

export type Report = { name: string; machine: string; day: string; rows: Row[] }
/** `counts`: of gateways; the model is fitted on the first two. Settings override those of the full or short run. */
type FleetOptions = Partial<Settings> & {
  short?: boolean
  counts?: readonly number[]
  logLine?: (line: string) => void
}

const COUNTS = [1, 2, 4]
const TURNS = 4
/** Simulated days that a stack can last: its clock begins so long ago, since Kafka refuses times in the future. */
const MOST_DAYS = 60
/** Real ms to wait for scores and rows of a day that is over. */
const SETTLE_MS = 60_000

type Settings = { conversations: number; daySeconds: number; rounds: number; idleSeconds: number; leastGapMs: number }
const FULL: Settings = { conversations: 800, daySeconds: 40, rounds: 3, idleSeconds: 8, leastGapMs: 0 }
const SHORT: Settings = { conversations: 150, daySeconds: 10, rounds: 1, idleSeconds: 3, leastGapMs: 0 }

const deltaOf = (after: Round['used'], before: Round['used']): Round['used'] =>
  new Map(
    [...after].map(([name, { cpuMs, megabytes, writtenBytes }]) => {
      const from = before.get(name)!
      return [
        name,
        {
          cpuMs: cpuMs.map((value, i) => value - from.cpuMs[i]!),
          megabytes,
          writtenBytes: writtenBytes.map((value, i) => value - from.writtenBytes[i]!),
        },
      ]
    }),
  )

/** What is used from here until `work` is done, and the real time of it. */
const used = async (stack: FleetStack, work: () => Promise<number>): Promise<Round> => {
  const before = await stack.read()
  const startedAt = performance.now()
  const turns = await work()
  const seconds = (performance.now() - startedAt) / 1000
  return { turns, seconds, load: loadavg()[0]!, used: deltaOf(await stack.read(), before) }
}

const measure = async (
  stack: FleetStack,
  clock: Clock,
  { conversations, rounds, idleSeconds, leastGapMs }: Settings,
  logLine: (line: string) => void,
): Promise<Omit<Measured, 'gateways'>> => {
  const ledger = initialLedger()
  const follower = await followEvents(stack.log, {
    name: 'bench',
    topics: ['turns', 'scores'],
    onEvent: ({ event }) => enter(ledger, event),
  })
  const answered: Answered[] = []
  let [seeds, refused] = [0, 0]
  /** Returns the turns of the day, once each has its score and its row. */
  const liveDay = async (seed: number): Promise<number> => {
    const day = simulatedDay({ conversations, turns: TURNS, seed })
    const dayStart = simulatedAt(clock, Date.now())
    const said = await driveDay(
      { urls: stack.urls, clock, dayStart, leastGapMs, nextSeed: () => (seeds += 1), onRefused: () => (refused += 1) },
      day,
    )
    answered.push(...said)
    for (const until = performance.now() + SETTLE_MS; performance.now() < until;) {
      if (isScored(ledger, answered.length)) break
      await pause(50)
    }
    await stack.projected()
    return said.length
  }
  try {
    // Each process warms up on as many own turns, since optimised code is a large part of the cost of a turn.
    for (let day = 0; day <= stack.urls.length; day += 1) {
      logLine(`  warm-up: ${await liveDay(-1 - day)} turns`)
      if (day === 0) await stack.startTrainers()
    }
    const idle = await used(stack, async () => {
      await pause(1000 * idleSeconds)
      return 0
    })
    const measured: Round[] = []
    for (let round = 1; round <= rounds; round += 1) {
      const one = await used(stack, () => liveDay(round))
      measured.push(one)
      logLine(`  day ${round}: ${one.turns} turns in ${one.seconds.toFixed(0)} s, load ${one.load.toFixed(1)}`)
    }
    const snapshotBytes = await stack.snapshotBytes()
    const backlog = new Map<string, number>()
    for (const service of ['gateway', 'scorer', 'trainer', 'publisher'] as const)
      backlog.set(service, (await stack.readLog(service)) / ledger.captured.size)
    await follower.caughtUp()
    return {
      rounds: measured,
      idle,
      snapshotBytes,
      backlog,
      turnsOnLog: ledger.captured.size,
      counts: countsOf(ledger, answered),
      refused,
      recall: recallOf(
        ledger,
        answered,
        GAPS.map(({ name }) => name),
      ),
    }
  } finally {
    await follower.stop()
  }
}

export const bench = async ({
  short = false,
  counts = COUNTS,
  logLine = () => undefined,
  ...given
}: FleetOptions = {}): Promise<Report> => {
  const settings = { ...(short ? SHORT : FULL), ...given }
  const { conversations, daySeconds, rounds, leastGapMs } = settings
  const speed = DAY_MS / 1000 / daySeconds
  const folder = await temporaryFolder()
  const measured: Measured[] = []
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const brokerPid = Number(readFileSync(join(folder.path, 'kafka/node-1/kafka.pid'), 'utf8'))
    for (const gateways of counts) {
      logLine(`${gateways} gateways, load ${loadavg()[0]!.toFixed(1)}`)
      const realStart = Date.now()
      const clock = { realStart, simulatedStart: realStart - MOST_DAYS * DAY_MS, speed }
      const stack = await startStack({
        brokers,
        brokerPid,
        prefix: `fleet-${gateways}.`,
        folder: join(folder.path, `fleet-${gateways}`),
        gateways,
        clock,
      })
      try {
        measured.push({ gateways, ...(await measure(stack, clock, settings, logLine)) })
      } finally {
        await stack.stop()
      }
    }
    return {
      name: 'fleet',
      machine: machine(),
      day: `24 h in ${daySeconds} s, ${conversations} conversations of ${TURNS} turns, ${rounds} days measured after one of warm-up and one for each gateway; ${leastGapMs} ms at least before a continuation`,
      rows: rowsOf(measured),
    }
  } finally {
    await killAll()
    await folder.remove()
  }
}
