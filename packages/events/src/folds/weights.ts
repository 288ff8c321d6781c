/**
 * The fold of `weights`, a chain per policy: the base of the line, its accepted versions, its head, and whether
 * learning is frozen. Version 0 is the base model, with an imported adapter if there is one; of a branch, the version from
 * which it starts.
 */
import type { LineStarted, Logged, VersionPublished, VersionRejected, WeightsEvent } from '../records.ts'
import { emptyChain, link, type Chain, type MemoryChain } from './chain.ts'
import { ignored, type FoldOutcome } from './outcome.ts'
import type { Journal, Keys, Table } from './table.ts'

/** `adapter`, `state`: sha256 of the adapter and of the optimizer state. `record`: id of the record that added it. */
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

export type GateVerdict = { accepted: true; version: number } | { accepted: false; reason: string }
export type Move = { from: number; to: number; at: number; why: string; who: string; record: string }

export type WeightLine = {
  chain: Chain
  started: LineStarted | null
  versions: Table<number, VersionState>
  /** The highest version number. */
  last: number
  head: number
  frozen: boolean
  /** The gate's verdict by record id of the UpdateComputed. */
  verdicts: Table<string, GateVerdict>
  /** Number of verdicts. */
  verdictCount: number
  /** Highest content figure of the base and the accepted versions; null if none has one. */
  bestContent: number | null
  /** Measured candidates rejected in a row; 0 after an accepted one and after a move of the head. */
  rejectionsInARow: number
  rejected: Journal<{ record: string; event: VersionRejected }>
  moves: Journal<Move>
  /** Number of moves. */
  moveCount: number
  /** Ids of the admin requests whose records counted. */
  requests: Keys
}
export type MemoryWeightLine = WeightLine & {
  chain: MemoryChain
  versions: Map<number, VersionState>
  verdicts: Map<string, GateVerdict>
  rejected: { record: string; event: VersionRejected }[]
  moves: Move[]
  requests: Set<string>
}

export type WeightsState = { lines: Table<string, WeightLine> }
export type MemoryWeights = { lines: Map<string, MemoryWeightLine> }

export const initialWeights = (): MemoryWeights => ({ lines: new Map() })

export const foldWeights = (state: WeightsState, logged: Logged<WeightsEvent>): FoldOutcome => {
  const line = weightLine(state, logged.event.policy)
  const outcome = fold(line, logged)
  state.lines.set(logged.event.policy, line)
  return outcome
}

const fold = (line: WeightLine, logged: Logged<WeightsEvent>): FoldOutcome => {
  const { event, id } = logged
  if (
    event.type === 'LineStarted'
      ? line.started !== null
      : line.started === null && (event.prev === '' || line.chain.read.has(event.prev))
  ) {
    line.chain.read.add(id)
    return ignored(event.type === 'LineStarted' ? 'line_exists' : 'no_line')
  }
  const outcome = link(line.chain, logged)
  if (!outcome.counted) return outcome
  switch (event.type) {
    case 'LineStarted':
      line.started = event
      line.versions.set(0, {
        version: 0,
        parent: null,
        adapter: event.imported?.adapter ?? event.parent?.adapter ?? null,
        state: event.parent?.state ?? null,
        update: null,
        blobsAt: event.imported ? event.at : 0,
        at: event.at,
        record: id,
        published: null,
      })
      updateBestContent(line, event.settings.content)
      break
    case 'VersionPublished':
      line.versions.set(event.number, {
        version: event.number,
        parent: event.parent,
        adapter: event.adapter,
        state: event.state,
        update: event.update,
        blobsAt: event.blobsAt,
        at: event.at,
        record: id,
        published: event,
      })
      line.last = Math.max(line.last, event.number)
      updateBestContent(line, event.figures.content)
      addVerdict(line, event.update, { accepted: true, version: event.number })
      moveHead(line, event.number, { why: event.why, who: 'publisher', at: event.at, record: id })
      break
    case 'VersionRejected':
      addVerdict(line, event.update, { accepted: false, reason: event.reason })
      line.rejected.push({ record: id, event })
      if (Object.keys(event.figures).length > 0) line.rejectionsInARow += 1
      break
    case 'HeadMoved':
      moveHead(line, event.to, { why: event.why, who: event.who, at: event.at, record: id })
      line.requests.add(event.request)
      if (event.freeze) line.frozen = true
      break
    case 'LearningFrozen':
      line.frozen = event.on
      line.requests.add(event.request)
      break
  }
  return outcome
}

/** In every process: from this record on, `to` is the version that serves and that the next update starts from. */
const moveHead = (line: WeightLine, to: number, move: Omit<Move, 'from' | 'to'>): void => {
  line.moves.push({ from: line.head, to, ...move })
  line.moveCount += 1
  line.rejectionsInARow = 0
  line.head = to
}

const addVerdict = (line: WeightLine, update: string, verdict: GateVerdict): void => {
  if (!line.verdicts.has(update)) line.verdictCount += 1
  line.verdicts.set(update, verdict)
}

const updateBestContent = (line: WeightLine, content: number | undefined): void => {
  if (content !== undefined)
    line.bestContent = line.bestContent === null ? content : Math.max(line.bestContent, content)
}

const emptyLine = (): MemoryWeightLine => ({
  chain: emptyChain(),
  started: null,
  versions: new Map(),
  last: 0,
  head: 0,
  frozen: false,
  verdicts: new Map(),
  verdictCount: 0,
  bestContent: null,
  rejectionsInARow: 0,
  rejected: [],
  moves: [],
  moveCount: 0,
  requests: new Set(),
})

export function weightLine(state: MemoryWeights, policy: string): MemoryWeightLine
export function weightLine(state: WeightsState, policy: string): WeightLine
export function weightLine(state: WeightsState, policy: string): WeightLine {
  let line = state.lines.get(policy)
  if (!line) {
    line = emptyLine()
    state.lines.set(policy, line)
  }
  return line
}

/** The version whose adapter is a part of the base, of the policy or of the one that it branched from; null: there is none. */
export const baseVersion = (state: WeightsState, policy: string): VersionState | null => {
  const { started } = weightLine(state, policy)
  const line = weightLine(state, started?.parent?.policy ?? policy)
  return line.started?.imported ? (line.versions.get(0) ?? null) : null
}

/** The number of the next accepted version. Numbers are not reused after a rollback. */
export const nextVersion = (line: WeightLine): number => line.last + 1

/**
 * Staleness: the number of updates from `version`, which sampled a turn, to `head` along the line of parents; after
 * rollbacks it is less than the difference of the numbers. Null if `version` is not an ancestor of `head`.
 */
export const lineageDistance = (line: WeightLine, version: number, head: number): number | null => {
  let distance = 0
  // A parent has a lower number, so the loop ends at the first number below `version`.
  for (let at: number | null = head; at !== null && at >= version; at = parentOf(line, at)) {
    if (at === version) return distance
    distance += 1
  }
  return null
}

const parentOf = (line: WeightLine, version: number): number | null => {
  const parent = line.versions.get(version)?.parent ?? null
  return parent !== null && parent < version ? parent : null
}
