/** An update of a training server against its records and, where a server is given, against what that computes again. */
import type { BatchState, WeightsState } from '@instar/events'
import type { TrainingServer } from '@instar/tinker/port'
import type { ReadPorts } from './ports.ts'
import { recomputeOnServer, RECOMPUTE_TOLERANCE } from './recompute.ts'
import { verifyRequests } from './verify-requests.ts'

/** `what`: the difference in words; null: there is none. `distance`: of RECOMPUTE_TOLERANCE. */
type Found = { mode: 'requests'; what: string | null } | { mode: 'server'; what: string | null; distance: number }

export const verifyRemote = async (
  ports: ReadPorts & { server?: TrainingServer; signal?: AbortSignal },
  state: { weights: WeightsState },
  batch: BatchState,
): Promise<Found> => {
  const what = await verifyRequests(ports, batch)
  const { server, signal = new AbortController().signal } = ports
  if (what !== null || !server) return { mode: 'requests', what }
  const { distance } = await recomputeOnServer({ ...ports, server, signal }, state, batch)
  const text = `computed again on the server, the adapter differs by ${distance.toPrecision(3)} of its change`
  return { mode: 'server', what: distance <= RECOMPUTE_TOLERANCE ? null : text, distance }
}
