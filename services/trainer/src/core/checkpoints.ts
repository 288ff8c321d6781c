/** Checkpoints on a training server that no line needs any more. */
import { updateLine, weightLine, type UpdatesState, type WeightsState } from '@instar/events'

type Lines = { policy: string; updates: UpdatesState; weights: WeightsState }

/** Addresses of an update's checkpoints; none for an update of the embedded trainer. */
const addressesOf = ({ policy, updates }: Lines, update: string | null | undefined): string[] => {
  const line = updateLine(updates, policy)
  const remote = line.byId.get(line.byUpdate.get(update ?? '') ?? '')?.update?.event.remote
  return remote ? [remote.statePath, remote.adapterPath] : []
}

/**
 * Of the version that falls out of the newest `kept` ones when the update in work is accepted; never of the head. The parent
 * stays until then, so that 1 deletes as 2 does.
 */
export const expiredVersion = (lines: Lines, kept: number): string[] => {
  const weights = weightLine(lines.weights, lines.policy)
  const old = weights.versions.get(weights.last + 1 - Math.max(kept, 2))
  return old && old.version !== weights.head ? addressesOf(lines, old.update) : []
}

/** Of the last update of the bound model, if the gate rejected it. */
export const rejectedUpdate = (lines: Lines): string[] => {
  const update = updateLine(lines.updates, lines.policy).binding?.update
  const verdict = weightLine(lines.weights, lines.policy).verdicts.get(update ?? '')
  return verdict?.accepted === false ? addressesOf(lines, update) : []
}
