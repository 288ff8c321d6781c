/** The tables of the fleet bench: what was measured, the model of it, and the fleet on paper. Figures are medians. */
import { median, rounded } from '../machine.ts'
import type { Counts, Recall } from './ledger.ts'
import { costAt, errorAt, fit, fleetOf, type Cost, type Costs, type Fleet, type Limits, type Point } from './model.ts'
import { ONLOOKER, type Reading, type SubjectName } from './stack.ts'

/** `used`: in these `seconds`, by process. `load`: at the end, of the last minute. */
export type Round = { turns: number; seconds: number; load: number; used: Reading }
/** `idle`: without turns. `backlog`: CPU ms a turn of a new process that reads the whole log. */
export type Measured = {
  gateways: number
  rounds: Round[]
  idle: Round
  snapshotBytes: Map<SubjectName, number[]>
  backlog: Map<string, number>
  turnsOnLog: number
  counts: Counts
  /** Answers 429, after which the request was sent again. */
  refused: number
  recall: Recall[]
}

/** CPU ms a turn, all processes of the service together: median, least and most of the days; then the parts of the median. */
type ServiceRow = {
  service: SubjectName
  gateways: number
  processes: number
  cpuMs: number
  least: number
  most: number
  own: number | null
  others: number | null
  idle: number
  megabytes: number
  snapshotMB: number | null
  writtenKBATurn: number
}
type FleetRow = {
  gateways: number
  turnsPerSecond: number
  load: number
  gatewayAgainstOne: number
  allServicesCpuMs: number
  allAgainstOne: number
  refused: number
} & Counts
type RecallRow = { gateways: number } & Recall
/** `error`: of the prediction for the most gateways. `reading`: ms a turn of a process that reads the log from its start. */
type ModelRow = {
  service: SubjectName
  ownMs: number
  othersMs: number
  idleMsPerSecond: number
  readingMs: number | null
  predicted: number
  measured: number
  error: number
}
type PaperRow = { reading: string } & Fleet
export type Row = ServiceRow | FleetRow | RecallRow | ModelRow | PaperRow

const SERVICES = ['gateway', 'scorer', 'trainer', 'publisher', 'projections'] as const
/** Those of which there are as many as gateways. */
const DIVIDED: readonly SubjectName[] = ['gateway', 'scorer']
/** Turns a second of each gateway on paper. */
const PAPER = { fleets: [20, 200], perGateway: 50 }
/** Defaults of the gateway, a turn's two names without API keys (docs/performance.md), and partitions of `turns`. */
const LIMITS: Limits = { nameBytes: 16 * 2 ** 30, nameDays: 7, turnBytes: 110, scorers: 8 }

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Of each day: CPU ms a turn of all processes of the subject. */
const cpuOf = ({ rounds }: Measured, name: SubjectName): number[] =>
  rounds.map(({ turns, used }) => sum(used.get(name)!.cpuMs) / turns)
const rateOf = ({ rounds }: Measured): number => median(rounds.map(({ turns, seconds }) => turns / seconds))
const processesOf = ({ idle }: Measured, name: SubjectName): number => idle.used.get(name)!.cpuMs.length

const pointOf = (one: Measured, name: SubjectName): Point => ({
  processes: processesOf(one, name),
  cpuMs: median(cpuOf(one, name)),
  perSecond: rateOf(one),
})

/** CPU ms a second of one process without turns, the median of all stacks and processes. */
const idleOf = (all: readonly Measured[], name: SubjectName): number =>
  median(all.flatMap(({ idle }) => (idle.used.get(name)?.cpuMs ?? []).map((cpuMs) => cpuMs / idle.seconds)))

/** By the first two stacks; of a service with one process their mean. */
const modelOf = (all: readonly Measured[], name: SubjectName): Cost => {
  const [first, second] = all as [Measured, Measured]
  const idle = idleOf(all, name)
  if (DIVIDED.includes(name)) return fit(pointOf(first, name), pointOf(second, name), idle)
  const own = [first, second].map((one) => pointOf(one, name)).map(({ cpuMs, perSecond }) => cpuMs - idle / perSecond)
  return { own: sum(own) / own.length, others: 0, idle }
}

export const rowsOf = (all: readonly Measured[]): Row[] => {
  const models = Object.fromEntries(SERVICES.map((name) => [name, modelOf(all, name)])) as Costs
  const most = all.at(-1)!
  const backlog = (name: SubjectName): number | null => most.backlog.get(name) ?? null
  return [
    ...all.flatMap((one) => [...one.idle.used.keys()].map((name) => serviceRow(one, all, models, name))),
    ...all.map((one) => fleetRow(one, all[0]!)),
    ...all.flatMap(({ gateways, recall }) =>
      recall.map((one) => ({ gateways, ...one, recall: Number(one.recall.toFixed(4)) })),
    ),
    ...SERVICES.map((service): ModelRow => {
      const { own, others, idle } = models[service]
      const point = pointOf(most, service)
      return {
        service,
        ownMs: rounded(own),
        othersMs: rounded(others),
        idleMsPerSecond: rounded(idle),
        readingMs: rounded(backlog(service) ?? Number.NaN) || null,
        predicted: rounded(costAt(models[service], point.processes, point.perSecond)),
        measured: rounded(point.cpuMs),
        error: Number(errorAt(models[service], point).toFixed(3)),
      }
    }),
    ...['at the measured rate', 'in full batches'].flatMap((reading, i) => {
      const costs =
        i === 0
          ? models
          : (Object.fromEntries(
              SERVICES.map((name) => {
                const read = backlog(name)
                const part = DIVIDED.includes(name) ? 'others' : 'own'
                return [name, read === null ? models[name] : { ...models[name], [part]: read }]
              }),
            ) as Costs)
      return PAPER.fleets.map((gateways): PaperRow => paperRow(reading, costs, gateways, most))
    }),
  ]
}

const serviceRow = (one: Measured, all: readonly Measured[], models: Costs, service: SubjectName): ServiceRow => {
  const cpu = cpuOf(one, service)
  const processes = processesOf(one, service)
  const idle = (processes * idleOf(all, service)) / rateOf(one)
  const divided = service === 'gateway' || service === 'scorer'
  const others = divided ? (processes - 1) * models[service].others : service === ONLOOKER ? median(cpu) - idle : null
  const last = one.rounds.at(-1)!.used.get(service)!
  const written = one.rounds.map(({ turns, used }) => sum(used.get(service)!.writtenBytes) / processes / turns)
  const snapshots = one.snapshotBytes.get(service)
  return {
    service,
    gateways: one.gateways,
    processes,
    cpuMs: rounded(median(cpu)),
    least: rounded(Math.min(...cpu)),
    most: rounded(Math.max(...cpu)),
    own: divided ? rounded(median(cpu) - (others ?? 0) - idle) : null,
    others: others === null ? null : rounded(others),
    idle: rounded(idle),
    megabytes: Math.round(Math.max(...last.megabytes)),
    snapshotMB: snapshots ? rounded(sum(snapshots) / snapshots.length / 1e6) : null,
    writtenKBATurn: rounded(median(written) / 1000),
  }
}

const fleetRow = (one: Measured, first: Measured): FleetRow => {
  const all = (stack: Measured): number => sum(SERVICES.map((name) => median(cpuOf(stack, name))))
  return {
    gateways: one.gateways,
    turnsPerSecond: rounded(rateOf(one)),
    load: rounded(median(one.rounds.map(({ load }) => load))),
    gatewayAgainstOne: rounded(median(cpuOf(one, 'gateway')) / median(cpuOf(first, 'gateway'))),
    allServicesCpuMs: rounded(all(one)),
    allAgainstOne: rounded(all(one) / all(first)),
    refused: one.refused,
    ...one.counts,
  }
}

const paperRow = (reading: string, costs: Costs, gateways: number, { rounds }: Measured): PaperRow => {
  const written = rounds.map(({ turns, used }) => median(used.get('gateway')!.writtenBytes) / turns)
  const fleet = fleetOf(costs, {
    gateways,
    perGateway: PAPER.perGateway,
    snapshotBytes: median(written),
    limits: LIMITS,
  })
  return { reading, ...(Object.fromEntries(Object.entries(fleet).map(([k, v]) => [k, rounded(v)])) as Fleet) }
}
