/**
 * What the gateway adds to a call, and what it costs: against the engine itself, a bare pass-through, Portkey's gateway
 * and LiteLLM, in interleaved rounds of one run. Engine and client are processes of their own; the gateway captures
 * every turn, flushed to disk before its answer ends.
 */
import { join } from 'node:path'
import { openEmbeddedLog } from '@instar/log'
import { temporaryFolder } from '../test/kit/stack.ts'
import type { Load, Outcome } from './gateway/client.ts'
import { startClient, startProgram, usedBy, type Client, type Server } from './gateway/process.ts'
import type { Size } from './gateway/prompts.ts'
import { goalsOf, rowsOf, tableOf, type Row } from './gateway/report.ts'
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
/** `profile`: a folder for the gateway's CPU profile. `only`: cases whose name holds it. */
type GatewayOptions = {
  quick?: boolean
  peer?: boolean
  say?: (line: string) => void
  profile?: string
  only?: string
  rounds?: number
}

export type Case = { size: Size; stream: boolean; kind: 'busy' | 'steady' }
/** One subject in one case of one round. `cpuMs`, `megabytes`: of its processes. */
export type Measured = {
  at: Case
  name: Name
  round: number
  perSecond: number
  cpuMs: number
  megabytes: number
  outcome: Outcome
}

const CONNECTIONS = 32
/** Begun on time, so many a second; what cannot do as many is asked at its own rate, which the table says. */
const RATES: Record<Name, number> = {
  direct: 50,
  'pass-through': 50,
  ours: 50,
  'npm start': 50,
  Portkey: 50,
  LiteLLM: 10,
}
const LARGE_RATE = 20

const rateOf = (name: Name, size: Size): number => Math.min(RATES[name], size === '1 KB' ? Infinity : LARGE_RATE)

const CASES: readonly Case[] = [
  ...[false, true].flatMap((stream): Case[] =>
    (['busy', 'steady'] as const).map((kind) => ({ size: '1 KB', stream, kind })),
  ),
  ...[false, true].flatMap((stream): Case[] =>
    (['busy', 'steady'] as const).map((kind) => ({ size: '200 KB', stream, kind })),
  ),
  { size: '200 KB again', stream: false, kind: 'busy' },
]

export const nameOf = ({ size, stream, kind }: Case): string => `${size}, ${stream ? 'stream' : 'whole'}, ${kind}`

/** Before the rounds: a program that has just started is compiled yet. */
const WARM_SECONDS = 3

const loadOf = ({ size, kind }: Case, name: Name, round: number, quick: boolean): Load => {
  if (kind === 'steady') return { perSecond: rateOf(name, size), seconds: quick ? 1 : size === '1 KB' ? 4 : 2.5 }
  return { connections: CONNECTIONS, seconds: quick ? 0.7 : round < 0 ? WARM_SECONDS : 2 }
}

const measure = async (
  client: Client,
  subject: Subject,
  at: Case,
  round: number,
  quick: boolean,
): Promise<Measured> => {
  const {
    name,
    server: { port, pid },
    headers,
  } = subject
  let before = 0
  const outcome = await client.run(
    { port, headers, size: at.size, stream: at.stream, load: loadOf(at, name, round, quick) },
    async () => {
      before = (await usedBy(pid)).cpuMs
    },
  )
  const { cpuMs, megabytes } = await usedBy(pid)
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

/** Every answer that the gateway gave is on the log. */
const countTurns = async (folder: string): Promise<number> => {
  const log = await openEmbeddedLog({ folder, readOnly: true })
  const { turns = {} } = await log.ends(['turns'])
  await log.close()
  return Math.max(0, ...Object.values(turns))
}

export const bench = async ({
  quick = false,
  peer = true,
  say = () => undefined,
  profile,
  only = '',
  rounds = quick ? 1 : 3,
}: GatewayOptions = {}): Promise<Report> => {
  const folder = await temporaryFolder()
  const running: { stop(): Promise<void> }[] = []
  try {
    const engine: Server = await startProgram(join(import.meta.dirname, 'gateway/mock.ts'))
    running.push(engine)
    const subjects = await startSubjects({ engine, folder: folder.path, peer, profile: profile ?? null, say })
    running.unshift(...subjects.slice(1).map(({ server }) => server))
    const client = await startClient()
    running.push(client)
    const found: Measured[] = []
    let answered = 0
    const cases = CASES.filter((one) => nameOf(one).includes(only))
    for (let round = -1; round < rounds; round++) {
      for (const at of cases) {
        // Each begins as often as the others.
        const turned = subjects.map((_, i) => subjects[(i + Math.max(0, round)) % subjects.length]!)
        for (const subject of turned) {
          if (round < 0 && at.kind === 'steady') continue
          const one = await measure(client, subject, at, round, quick)
          if (subject.name === 'ours') answered += one.outcome.count
          if (one.outcome.failed > 0) say(`${subject.name}, ${nameOf(at)}: ${one.outcome.failed} failed`)
          if (round >= 0) found.push(one)
        }
      }
      say(round < 0 ? 'warm' : `round ${round + 1} of ${rounds}`)
    }
    for (const one of running.splice(0)) await one.stop()
    const turns = await countTurns(join(folder.path, 'log'))
    if (turns < answered) throw new Error(`${answered} answers were given and ${turns} turns are on the log`)
    const rows = rowsOf(found)
    return {
      name: 'gateway',
      machine: machine(),
      load: `busy: ${CONNECTIONS} connections; steady: ${RATES.ours}/s with 1 KB, ${LARGE_RATE}/s with 200 KB, LiteLLM ${RATES.LiteLLM}/s; ${rounds} rounds`,
      captured: `${answered} answers counted, ${turns} turns on the log`,
      targets: `\n${goalsOf(found).join('\n')}`,
      table: `\n${tableOf(rows)}\n`,
      rows,
    }
  } finally {
    for (const one of running) await one.stop()
    await folder.remove()
  }
}

if (import.meta.main) {
  const value = (flag: string): string | undefined =>
    process.argv.find((word) => word.startsWith(`--${flag}=`))?.slice(flag.length + 3)
  const profile = value('profile')
  const rounds = value('rounds')
  const report = await bench({
    quick: process.argv.includes('--quick'),
    peer: !process.argv.includes('--no-peer'),
    say: (line) => {
      console.error(line)
    },
    only: value('only') ?? '',
    ...(profile === undefined ? {} : { profile }),
    ...(rounds === undefined ? {} : { rounds: Number(rounds) }),
  })
  console.log(`${report.machine}\n${report.load}; ${report.captured}${report.targets}\n${report.table}`)
}
