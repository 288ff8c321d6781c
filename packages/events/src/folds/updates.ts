/** The fold of `updates`, per policy, a chain: batches, what came of them, baselines after each. */
import type { BatchSealed, Logged, UpdateComputed, UpdatesEvent } from '../records.ts'
import { emptyChain, link, type Chain } from './chain.ts'
import type { Outcome } from './outcome.ts'

export type BatchState = {
  id: string
  sealed: BatchSealed
  /** `computed` waits for a verdict on `weights`; `failed` is settled. */
  status: 'sealed' | 'computed' | 'failed'
  update: { id: string; event: UpdateComputed } | null
  reason: string | null
}

export type UpdateLine = {
  chain: Chain
  batches: BatchState[]
  byId: Map<string, BatchState>
  /** Turns of any batch, trained or dropped: spent for good. */
  spent: Set<string>
  baselines: Map<string, { value: number; count: number }>
}

export type UpdatesState = { lines: Map<string, UpdateLine> }

export const initialUpdates = (): UpdatesState => ({ lines: new Map() })

export const foldUpdates = (state: UpdatesState, logged: Logged<UpdatesEvent>): Outcome => {
  const { event, id } = logged
  const line = updateLine(state, event.policy)
  const outcome = link(line.chain, { ...logged, event })
  if (!outcome.counted) return outcome
  if (event.type === 'BatchSealed') {
    const batch: BatchState = { id, sealed: event, status: 'sealed', update: null, reason: null }
    line.batches.push(batch)
    line.byId.set(id, batch)
    for (const item of event.items) line.spent.add(item.turn)
    for (const drop of event.dropped) line.spent.add(drop.turn)
    for (const b of event.baselines) line.baselines.set(b.subject, { value: b.value, count: b.count })
    return outcome
  }
  const batch = line.byId.get(event.batch)
  if (batch && event.type === 'UpdateComputed') {
    batch.status = 'computed'
    batch.update = { id, event }
  } else if (batch && event.type === 'UpdateFailed') {
    batch.status = 'failed'
    batch.reason = event.reason
  }
  return outcome
}

export const updateLine = (state: UpdatesState, policy: string): UpdateLine => {
  let line = state.lines.get(policy)
  if (!line) {
    line = { chain: emptyChain(), batches: [], byId: new Map(), spent: new Set(), baselines: new Map() }
    state.lines.set(policy, line)
  }
  return line
}
