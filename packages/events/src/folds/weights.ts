/**
 * The fold of `weights`, per policy, a chain: the line's base, its accepted versions, its head, whether
 * learning is frozen. Version 0 is the base (of a branch: the version it leaves).
 */
import type { HeadMoved, LineStarted, Logged, VersionPublished, VersionRejected, WeightsEvent } from '../records.ts'
import { emptyChain, link, type Chain } from './chain.ts'
import { ignored, type Outcome } from './outcome.ts'

export type VersionState = {
  version: number
  /** Null for version 0. */
  parent: number | null
  adapter: string | null
  state: string | null
  update: string | null
  blobsAt: number
  at: number
  record: string
  published: VersionPublished | null
}

export type Verdict = { accepted: true; version: number } | { accepted: false; reason: string }
export type Move = { from: number; to: number; at: number; why: string; who: string; record: string }

export type WeightLine = {
  chain: Chain
  started: LineStarted | null
  versions: Map<number, VersionState>
  head: number
  frozen: boolean
  /** Record id of an UpdateComputed → what the gate said. */
  verdicts: Map<string, Verdict>
  rejected: { record: string; event: VersionRejected }[]
  moves: Move[]
  /** Ids of admin requests that counted. */
  requests: Set<string>
}

export type WeightsState = { lines: Map<string, WeightLine> }

export const initialWeights = (): WeightsState => ({ lines: new Map() })

export const foldWeights = (state: WeightsState, logged: Logged<WeightsEvent>): Outcome => {
  const { event, id } = logged
  const line = weightLine(state, event.policy)
  if (event.type === 'LineStarted' ? line.started !== null : line.started === null && (event.prev === '' || line.chain.read.has(event.prev))) {
    line.chain.read.add(id)
    return ignored(event.type === 'LineStarted' ? 'line_exists' : 'no_line')
  }
  const outcome = link(line.chain, { ...logged, event })
  if (!outcome.counted) return outcome
  switch (event.type) {
    case 'LineStarted':
      line.started = event
      line.versions.set(0, { version: 0, parent: null, adapter: event.parent?.adapter ?? null, state: event.parent?.state ?? null, update: null, blobsAt: 0, at: event.at, record: id, published: null })
      break
    case 'VersionPublished':
      line.versions.set(event.number, { version: event.number, parent: event.parent, adapter: event.adapter, state: event.state, update: event.update, blobsAt: event.blobsAt, at: event.at, record: id, published: event })
      line.verdicts.set(event.update, { accepted: true, version: event.number })
      line.moves.push({ from: line.head, to: event.number, at: event.at, why: event.why, who: 'publisher', record: id })
      line.head = event.number
      break
    case 'VersionRejected':
      line.verdicts.set(event.update, { accepted: false, reason: event.reason })
      line.rejected.push({ record: id, event })
      break
    case 'HeadMoved':
      moveHead(line, event, id)
      break
    case 'LearningFrozen':
      line.frozen = event.on
      line.requests.add(event.request)
      break
  }
  return outcome
}

const moveHead = (line: WeightLine, event: HeadMoved, record: string): void => {
  line.moves.push({ from: line.head, to: event.to, at: event.at, why: event.why, who: event.who, record })
  line.head = event.to
  line.requests.add(event.request)
  if (event.freeze) line.frozen = true
}

export const weightLine = (state: WeightsState, policy: string): WeightLine => {
  let line = state.lines.get(policy)
  if (!line) {
    line = { chain: emptyChain(), started: null, versions: new Map(), head: 0, frozen: false, verdicts: new Map(), rejected: [], moves: [], requests: new Set() }
    state.lines.set(policy, line)
  }
  return line
}

/** The number that the next accepted version takes: numbers go on after a rollback. */
export const nextVersion = (line: WeightLine): number => Math.max(...line.versions.keys(), 0) + 1

/**
 * Staleness: how many updates lie between the version that spoke and the head, along the lineage, or null
 * when `version` is not an ancestor of `head` (it was rolled back over): never a difference of numbers.
 */
export const lineageDistance = (line: WeightLine, version: number, head: number): number | null => {
  let distance = 0
  for (let at: number | null = head; at !== null; at = line.versions.get(at)?.parent ?? null) {
    if (at === version) return distance
    distance += 1
  }
  return null
}
