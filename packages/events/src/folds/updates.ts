/** The fold of `updates`, a chain per policy: batches, their updates or failures, and the baselines after each. */
import type {
  BatchSealed,
  Logged,
  SentRequest,
  TrainerBound,
  TrainerScored,
  UpdateComputed,
  UpdateRequested,
  UpdatesEvent,
} from '../records.ts'
import { emptyChain, link, type Chain, type MemoryChain } from './chain.ts'
import { ignored, type FoldOutcome } from './outcome.ts'
import type { Journal, Keys, Table } from './table.ts'

export type BatchState = {
  id: string
  sealed: BatchSealed
  /** A `computed` update is followed by a verdict on `weights`; a `failed` batch is not. */
  status: 'sealed' | 'computed' | 'failed'
  update: { id: string; event: UpdateComputed } | null
  reason: string | null
  /** Of a trainer on a Tinker server; null: none. */
  journal: UpdateJournal | null
}

/** The records of an update on the model that it was computed with last, each kind in the order of its passes. */
export type UpdateJournal = {
  model: string
  /** The binding under which it began: of its model, so requests and capabilities are those of all its records. */
  binding: TrainerBound | null
  scored: { id: string; event: TrainerScored }[]
  requested: { id: string; event: UpdateRequested }[]
}

/** The newest TrainerBound of a line, and what the records after it say of its models. */
export type TrainerBinding = {
  id: string
  event: TrainerBound
  /** Of the next request to the trained model, and to the reference. */
  seq: number
  referenceSeq: number
  /** sha256 of the trainer state that the trained model has; null: that of a new LoRA. */
  state: string | null
  /** Record id of the batch that has changed its weights since; null: none. */
  batch: string | null
  /** Record id of the last UpdateComputed of the trained model; null: none. */
  update: string | null
}

export type UpdateLine = {
  chain: Chain
  /** Number of sealed batches, and of those that failed. */
  count: number
  failed: number
  /** Id of the latest batch; '' before the first. */
  last: string
  binding: TrainerBinding | null
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
  const again = outcome.counted && isSettled(line, logged.event)
  if (outcome.counted && !again) advance(line, logged)
  state.lines.set(logged.event.policy, line)
  return again ? ignored('settled') : outcome
}

/**
 * Whether the record is a second outcome of its batch. Trainers before 2026-11-28 recorded a batch as failed that another one
 * had computed, of which the gate may have made a version by then.
 */
const isSettled = (line: UpdateLine, event: UpdatesEvent): boolean =>
  (event.type === 'UpdateComputed' || event.type === 'UpdateFailed') &&
  (line.byId.get(event.batch)?.status ?? 'sealed') !== 'sealed'

const advance = (line: UpdateLine, { event, id }: Logged<UpdatesEvent>): void => {
  if (event.type === 'BatchSealed') {
    const batch: BatchState = { id, sealed: event, status: 'sealed', update: null, reason: null, journal: null }
    line.batches.push(batch)
    line.byId.set(id, batch)
    line.count += 1
    line.last = id
    for (const item of event.items) line.spent.add(item.turn)
    for (const drop of event.dropped) line.spent.add(drop.turn)
    for (const b of event.baselines) line.baselines.set(b.subject, { value: b.value, count: b.count })
    return
  }
  if (event.type === 'TrainerBound') {
    line.binding = bindingAfter(line.binding, event, id)
    return
  }
  const batch = line.byId.get(event.batch)
  if (!batch) return
  if (event.type === 'TrainerScored' || event.type === 'UpdateRequested') {
    const same = batch.journal?.model === event.model ? batch.journal : null
    const bound = line.binding?.event ?? null
    batch.journal = {
      model: event.model,
      binding: same ? same.binding : bound?.model === event.model ? bound : null,
      scored: [...(same?.scored ?? []), ...(event.type === 'TrainerScored' ? [{ id, event }] : [])],
      requested: [...(same?.requested ?? []), ...(event.type === 'UpdateRequested' ? [{ id, event }] : [])],
    }
    line.byId.set(batch.id, batch)
    advanceBinding(line, event.model, event.requests, event.type === 'UpdateRequested' ? { batch: batch.id } : {})
    return
  }
  if (event.type === 'UpdateComputed') {
    batch.status = 'computed'
    batch.update = { id, event }
    line.byUpdate.set(id, batch.id)
    if (event.remote)
      advanceBinding(line, event.remote.model, event.remote.requests, { batch: null, state: event.state, update: id })
  } else {
    batch.status = 'failed'
    batch.reason = event.reason
    line.failed += 1
  }
  line.byId.set(batch.id, batch)
}

/** A trainer that takes up the model of the one before continues its seqs. */
const bindingAfter = (before: TrainerBinding | null, event: TrainerBound, id: string): TrainerBinding => {
  const referenceSeq = before?.event.reference === event.reference ? before.referenceSeq : 1
  return before?.event.model === event.model
    ? { ...before, id, event, referenceSeq }
    : {
        id,
        event,
        seq: event.statePath === null ? 1 : 2,
        referenceSeq,
        state: event.parent.state,
        batch: null,
        update: null,
      }
}

const advanceBinding = (
  line: UpdateLine,
  model: string,
  requests: readonly SentRequest[],
  changes: Partial<Pick<TrainerBinding, 'batch' | 'state' | 'update'>>,
): void => {
  const { binding } = line
  if (binding?.event.model !== model) return
  const after = (of: SentRequest['of'], seq: number): number =>
    requests.reduce((next, request) => (request.of === of ? Math.max(next, request.seq + 1) : next), seq)
  line.binding = {
    ...binding,
    ...changes,
    seq: after('trained', binding.seq),
    referenceSeq: after('reference', binding.referenceSeq),
  }
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
  binding: null,
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
