/**
 * Latency that the gateway adds to a request, and its CPU. Compared with the engine alone, a pass-through, Portkey's
 * gateway and LiteLLM, in interleaved rounds of one run. Engine and client are separate processes; the gateway captures
 * every turn, flushed to disk before the answer ends.
 */
import { join } from 'node:path'
import { openEmbeddedLog } from '@instar/log'
import { temporaryFolder } from '../test/kit/stack.ts'
import { caseName, type Case } from './gateway/cases.ts'
import type { Load } from './gateway/client.ts'
import { readUsage, startClient, startProgram, type Client, type Server } from './gateway/process.ts'
import type { Size } from './gateway/prompts.ts'
import { rowsOf, tableOf, targetsOf, type Measurement, type Row } from './gateway/report.ts'
import { startSubjects, type Name, type Subject } from './gateway/subjects.ts'
import { machine } from './machine.ts'

export type Report = {
  name: string
  machine: string
  load: string
  captured: string
  targets: string
  table: string
  rows: Row[]
}
/**
 * `profile`: a folder for the CPU profile of the gateway. `only`: measure the cases whose name contains it. `before`: another
 * checkout, whose gateway is measured beside this one's.
 */
type GatewayOptions = {
  quick?: boolean
  peer?: boolean
  logLine?: (line: string) => void
  profile?: string | undefined
  only?: string | undefined
  before?: string | undefined
  rounds?: number | undefined
}

/** Connections of the closed loop. */
const CONNECTIONS = 32
/** Requests per second of the open loop; lower for a subject that cannot process more. */
const RATES: Record<Name, number> = {
  direct: 50,
  'pass-through': 50,
  ours: 50,
  before: 50,
  'npm start': 50,
  Portkey: 50,
  LiteLLM: 10,
}
/** Requests per second of 200 KB. */
const LARGE_RATE = 20

const rateOf = (name: Name, size: Size): number => Math.min(RATES[name], size === '1 KB' ? Infinity : LARGE_RATE)

const CASES: readonly Case[] = [
  ...[false, true].flatMap((stream): Case[] =>
    (['closed', 'open'] as const).map((kind) => ({ size: '1 KB', stream, kind })),
  ),
  ...[false, true].flatMap((stream): Case[] =>
    (['closed', 'open'] as const).map((kind) => ({ size: '200 KB', stream, kind })),
  ),
  { size: '200 KB again', stream: false, kind: 'closed' },
]

/**
 * Answers of each subject in each closed loop before the rounds, in pieces of some seconds and at most so long. V8 compiles the
 * gateway's functions during its first ten thousand requests, each of which takes up to twice the CPU of later ones.
 */
const WARM_UP: Record<Size, number> = { '1 KB': 15_000, '200 KB': 2_000, '200 KB again': 2_000 }
const WARM_UP_SECONDS = 3
const LONGEST_WARM_UP_SECONDS = 15

const loadOf = ({ size, kind }: Case, name: Name, round: number, quick: boolean): Load => {
  if (kind === 'open') return { perSecond: rateOf(name, size), seconds: quick ? 1 : size === '1 KB' ? 4 : 2.5 }
  return { connections: CONNECTIONS, seconds: quick ? 0.7 : round < 0 ? WARM_UP_SECONDS : 2 }
}

const measure = async (
  client: Client,
  subject: Subject,
  at: Case,
  round: number,
  quick: boolean,
): Promise<Measurement> => {
  const {
    name,
    server: { port, pid },
    headers,
  } = subject
  let before = 0
  const outcome = await client.run(
    { port, headers, size: at.size, stream: at.stream, load: loadOf(at, name, round, quick) },
    async () => {
      before = (await readUsage(pid)).cpuMs
    },
  )
  const { cpuMs, megabytes } = await readUsage(pid)
  return {
    at,
    name,
    round,
    perSecond: outcome.count / outcome.seconds,
    cpuMs: (cpuMs - before) / (outcome.count + outcome.failed),
    megabytes,
    outcome,
  }
}

/** Number of turns on the log. */
const countTurns = async (folder: string): Promise<number> => {
  const log = await openEmbeddedLog({ folder, readOnly: true })
  const { turns = {} } = await log.ends(['turns'])
  await log.close()
  return Math.max(0, ...Object.values(turns))
}

export const bench = async ({
  quick = false,
  peer = true,
  logLine = () => undefined,
  profile,
  only = '',
  before,
  rounds = quick ? 1 : 3,
}: GatewayOptions = {}): Promise<Report> => {
  const folder = await temporaryFolder()
  const running: { stop(): Promise<void> }[] = []
  try {
    const engine: Server = await startProgram(join(import.meta.dirname, 'gateway/mock.ts'))
    running.push(engine)
    const subjects = await startSubjects({
      engine,
      folder: folder.path,
      peer,
      profile: profile ?? null,
      before: before ?? null,
      logLine,
    })
    running.unshift(...subjects.slice(1).map(({ server }) => server))
    const client = await startClient()
    running.push(client)
    const measurements: Measurement[] = []
    let answered = 0
    const cases = CASES.filter((one) => caseName(one).includes(only))
    for (let round = -1; round < rounds; round++) {
      for (const at of cases) {
        // Each subject is the first one equally often.
        const rotated = subjects.map((_, i) => subjects[(i + Math.max(0, round)) % subjects.length]!)
        for (const subject of rotated) {
          if (round < 0 && at.kind === 'open') continue
          const until = performance.now() + 1000 * LONGEST_WARM_UP_SECONDS
          let warm = 0
          do {
            const measurement = await measure(client, subject, at, round, quick)
            warm += measurement.outcome.count
            if (subject.name === 'ours') answered += measurement.outcome.count
            if (measurement.outcome.failed > 0)
              logLine(`${subject.name}, ${caseName(at)}: ${measurement.outcome.failed} failed`)
            if (round >= 0) measurements.push(measurement)
          } while (round < 0 && !quick && warm < WARM_UP[at.size] && performance.now() < until)
        }
      }
      logLine(round < 0 ? 'warmed up' : `round ${round + 1} of ${rounds}`)
    }
    for (const one of running.splice(0)) await one.stop()
    const turns = await countTurns(join(folder.path, 'log'))
    if (turns < answered) throw new Error(`the gateway gave ${answered} answers, but the log has only ${turns} turns`)
    const rows = rowsOf(measurements)
    return {
      name: 'gateway',
      machine: machine(),
      load: `closed loop: ${CONNECTIONS} connections; open loop: ${RATES.ours}/s with 1 KB, ${LARGE_RATE}/s with 200 KB, LiteLLM ${RATES.LiteLLM}/s; ${rounds} rounds`,
      captured: `${answered} answers counted, ${turns} turns on the log`,
      targets: `\n${targetsOf(measurements).join('\n')}`,
      table: `\n${tableOf(rows)}\n`,
      rows,
    }
  } finally {
    for (const one of running) await one.stop()
    await folder.remove()
  }
}
