/**
 * A model of what a fleet costs. A process spends `own` ms CPU on each turn that it handles, `others` ms on each turn
 * that another process of the service handles, and `idle` ms a second without any. With n processes and r turns a
 * second in all, a turn costs all processes together own + (n − 1)·others + n·idle / r ms.
 */

/** `own`, `others`: ms a turn; `idle`: ms a second of one process. */
export type Cost = { own: number; others: number; idle: number }
/** Of a service: `cpuMs` of all its processes together per turn of the fleet, at `perSecond` turns. */
export type Point = { processes: number; cpuMs: number; perSecond: number }

/** CPU ms per turn of all processes together. */
export const costAt = ({ own, others, idle }: Cost, processes: number, perSecond: number): number =>
  own + (processes - 1) * others + (processes * idle) / perSecond

/** The cost that passes through both points exactly. They must have different numbers of processes. */
export const fit = (a: Point, b: Point, idle: number): Cost => {
  const busy = ({ cpuMs, processes, perSecond }: Point): number => cpuMs - (processes * idle) / perSecond
  const others = (busy(b) - busy(a)) / (b.processes - a.processes)
  return { own: busy(a) - (a.processes - 1) * others, others, idle }
}

/** Relative error of the model at a point: positive where it predicts too much. */
export const errorAt = (cost: Cost, { processes, cpuMs, perSecond }: Point): number =>
  costAt(cost, processes, perSecond) / cpuMs - 1

/** The limits of this build: of the table of names, `turnBytes` of them for a turn; `scorers`: partitions of `turns`. */
export type Limits = { nameBytes: number; nameDays: number; turnBytes: number; scorers: number }
export type Costs = Record<'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections', Cost>
/** `snapshotBytes`: that a gateway writes per turn of the fleet. */
export type FleetSettings = { gateways: number; perGateway: number; snapshotBytes: number; limits: Limits }

/** Cores are those of one process. `recognisedSeconds`: how long an unnamed conversation is recognised. */
export type Fleet = {
  gateways: number
  turnsPerSecond: number
  gatewayOwnCores: number
  gatewayOthersCores: number
  othersShare: number
  gatewayMsPerTurn: number
  againstOne: number
  scorers: number
  scorerCores: number
  trainerCores: number
  publisherCores: number
  projectionsCores: number
  snapshotGBADay: number
  recognisedSeconds: number
}

/** A fleet on paper: one scorer for each gateway as far as the partitions go; readers of all turns have one process. */
export const fleetOf = (costs: Costs, { gateways, perGateway, snapshotBytes, limits }: FleetSettings): Fleet => {
  const turnsPerSecond = gateways * perGateway
  const cores = ({ own, others, idle }: Cost, processes: number): { own: number; others: number } => ({
    own: ((turnsPerSecond / processes) * own + idle) / 1000,
    others: (turnsPerSecond * (1 - 1 / processes) * others) / 1000,
  })
  const gateway = cores(costs.gateway, gateways)
  const scorers = Math.min(gateways, limits.scorers)
  const scorer = cores(costs.scorer, scorers)
  const single = (cost: Cost): number => cores(cost, 1).own
  const gatewayMsPerTurn = costAt(costs.gateway, gateways, turnsPerSecond)
  return {
    gateways,
    turnsPerSecond,
    gatewayOwnCores: gateway.own,
    gatewayOthersCores: gateway.others,
    othersShare: gateway.others / (gateway.own + gateway.others),
    gatewayMsPerTurn,
    againstOne: gatewayMsPerTurn / costAt(costs.gateway, 1, perGateway),
    scorers,
    scorerCores: scorer.own + scorer.others,
    trainerCores: single(costs.trainer),
    publisherCores: single(costs.publisher),
    projectionsCores: single(costs.projections),
    snapshotGBADay: (snapshotBytes * turnsPerSecond * 86_400) / 1e9,
    recognisedSeconds: Math.min(limits.nameDays * 86_400, limits.nameBytes / limits.turnBytes / turnsPerSecond),
  }
}
