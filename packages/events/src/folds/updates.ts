/** The fold of `updates`, a chain per policy: batches, their updates or failures, and the baselines after each. */
import type { BatchSealed, Logged, UpdateComputed, UpdatesEvent } from '../records.ts'
import { emptyChain, link, type Chain, type MemoryChain } from './chain.ts'
import type { FoldOutcome } from './outcome.ts'
import type { Journal, Keys, Table } from './table.ts'

export type BatchState = {
  id: string
  sealed: BatchSealed
  /** A `computed` update is followed by a verdict on `weights`; a `failed` batch is not. */
  status: 'sealed' | 'computed' | 'failed'
  update: { id: string; event: UpdateComputed } | null
  reason: string | null
}

export type UpdateLine = {
  chain: Chain
  /** Number of sealed batches, and of those that failed. */
  count: number
  failed: number
  /** Id of the latest batch; '' before the first. */
  last: string
  batches: Journal<BatchState>
  byId: Table<string, BatchState>
  /** Record id of the batch by record id of its UpdateComputed. */
  byUpdate: Table<string, string>
  /** Turns of all batches, trained or dropped. They are not used again. */
  spent: Keys
  baselines: Table<string, { value: number; count: number }>
}
export type MemoryUpdateLine = UpdateLine & {
  chain: MemoryChain
  batches: BatchState[]
  byId: Map<string, BatchState>
  byUpdate: Map<string, string>
  spent: Set<string>
  baselines: Map<string, { value: number; count: number }>
}

export type UpdatesState = { lines: Table<string, UpdateLine> }
export type MemoryUpdates = { lines: Map<string, MemoryUpdateLine> }

export const initialUpdates = (): MemoryUpdates => ({ lines: new Map() })

export const foldUpdates = (state: UpdatesState, logged: Logged<UpdatesEvent>): FoldOutcome => {
  const line = updateLine(state, logged.event.policy)
  const outcome = link(line.chain, logged)
  if (outcome.counted) advance(line, logged)
  state.lines.set(logged.event.policy, line)
  return outcome
}

const advance = (line: UpdateLine, { event, id }: Logged<UpdatesEvent>): void => {
  if (event.type === 'BatchSealed') {
    const batch: BatchState = { id, sealed: event, status: 'sealed', update: null, reason: null }
    line.batches.push(batch)
    line.byId.set(id, batch)
    line.count += 1
    line.last = id
    for (const item of event.items) line.spent.add(item.turn)
    for (const drop of event.dropped) line.spent.add(drop.turn)
    for (const b of event.baselines) line.baselines.set(b.subject, { value: b.value, count: b.count })
    return
  }
  const batch = line.byId.get(event.batch)
  if (!batch) return
  if (batch.status === 'failed') line.failed -= 1
  if (event.type === 'UpdateComputed') {
    batch.status = 'computed'
    batch.update = { id, event }
    line.byUpdate.set(id, batch.id)
  } else {
    batch.status = 'failed'
    batch.reason = event.reason
    line.failed += 1
  }
  line.byId.set(batch.id, batch)
}

/** The batch of an update; undefined if the line has no such update. */
export const batchOfUpdate = (line: UpdateLine, update: string): BatchState | undefined => {
  const batch = line.byUpdate.get(update)
  return batch === undefined ? undefined : line.byId.get(batch)
}

const emptyLine = (): MemoryUpdateLine => ({
  chain: emptyChain(),
  count: 0,
  failed: 0,
  last: '',
  batches: [],
  byId: new Map(),
  byUpdate: new Map(),
  spent: new Set(),
  baselines: new Map(),
})

export function updateLine(state: MemoryUpdates, policy: string): MemoryUpdateLine
export function updateLine(state: UpdatesState, policy: string): UpdateLine
export function updateLine(state: UpdatesState, policy: string): UpdateLine {
  let line = state.lines.get(policy)
  if (!line) {
    line = emptyLine()
    state.lines.set(policy, line)
  }
  return line
}
