/**
 * The batch after a candidate, computed while the gate measures the candidate. Its parent is the candidate, as if that were
 * the head; nothing of it is on the log. It is sealed when the candidate has become the head and every item is still as it
 * was chosen; otherwise it is discarded, and a batch is chosen from what is pending then. What is computed depends on the
 * batch's record alone (seed and settings among it), so that the update has the same bytes as one computed after the seal.
 */
import { encodeEvent, nextVersion, updateLine, weightLine, type BatchSealed } from '@instar/events'
import { sealOn, usableVersions, headGround, type BatchSettings } from './batch.ts'
import { choose, chosenAgain } from './choice.ts'
import type { TrainerState } from './state.ts'

/** `update`: record id of the candidate. `sealed`: the batch as it will be recorded, but for its place in the chain, its time and `dropped`. */
export type Ahead = { update: string; sealed: BatchSealed }

/** The batch on the candidate of the last batch; null: there are too few turns, or the candidate cannot become the head. */
export const chooseAhead = (state: TrainerState, options: BatchSettings, now: number): Ahead | null => {
  const weights = weightLine(state.weights, state.policy)
  const updates = updateLine(state.updates, state.policy)
  const last = updates.byId.get(updates.last)
  if (!last?.update || last.sealed.parent.version !== weights.head) return null
  const { id, event } = last.update
  const version = nextVersion(weights)
  const ground = {
    parent: { version, adapter: event.adapter, state: event.state },
    versions: [version, ...usableVersions(weights, options.staleness - 1)],
    rejectionsInARow: 0,
  }
  const chosen = choose(state, ground.versions, options, now)
  if (chosen.length < options.batchSize) return null
  return { update: id, sealed: sealOn(state, options, ground, chosen, now) }
}

/** The record of a batch that was chosen ahead; null if it would not be the same batch now. */
export const sealAhead = (
  state: TrainerState,
  options: BatchSettings,
  { sealed }: Ahead,
  now: number,
): BatchSealed | null => {
  const ground = headGround(state, options)
  if (ground?.parent.version !== sealed.parent.version) return null
  const turns = sealed.items.map(({ turn }) => turn)
  const chosen = chosenAgain(state, turns, ground.versions, options)
  const again = chosen && sealOn(state, options, ground, chosen, now)
  return again && isSameBatch(again, sealed) ? again : null
}

/** Whether two records are of the same batch, so that their updates are the same. */
export const isSameBatch = (one: BatchSealed, other: BatchSealed): boolean => inputsOf(one) === inputsOf(other)

const inputsOf = (sealed: BatchSealed): string => encodeEvent({ ...sealed, prev: '', dropped: [], at: 0 }).id
