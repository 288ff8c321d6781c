/**
 * Computes a recorded update again on its training server: the recorded step requests, made for another model that starts
 * from the parent's saved state. Their rows hold the recorded log-probabilities, so no forward pass is needed.
 */
import { InstarError, type BatchState, type WeightsState } from '@instar/events'
import { getBlob } from '@instar/log'
import { readSafetensors } from '@instar/policy/checkpoints/safetensors'
import { loadRequest, saveRequest } from '@instar/tinker'
import type { FetchedAdapter, TrainingServer } from '@instar/tinker/port'
import { statePathOf, takeLeftGradients } from './bind.ts'
import { capabilitiesOf, type ReadPorts } from './ports.ts'
import { stepRequests, updateOf } from './requests.ts'

/** Largest ‖recomputed − recorded‖ / ‖recorded − parent‖ over all tensors. */
export const RECOMPUTE_TOLERANCE = 1e-3

/** `distance`: as RECOMPUTE_TOLERANCE; 0: the adapter is the recorded one, tensor by tensor. */
export type Recomputed = { distance: number; tensors: string }

const numbersOf = (weights: Uint8Array): Map<string, Float32Array> =>
  new Map(
    [...readSafetensors(weights, 'adapter_model.safetensors')].map(([name, { data }]) => [
      name,
      data instanceof Float32Array ? data : new Float32Array(),
    ]),
  )

/** Infinity where the tensors are not the same ones. */
export const changeDistance = (found: Uint8Array, recorded: Uint8Array, parent: Uint8Array): number => {
  const [own, wanted, before] = [found, recorded, parent].map(numbersOf)
  let [difference, change] = [0, 0]
  for (const [name, values] of wanted ?? []) {
    const [other, start] = [own?.get(name), before?.get(name)]
    if (other?.length !== values.length || start?.length !== values.length) return Infinity
    values.forEach((value, at) => {
      difference += ((other[at] ?? 0) - value) ** 2
      change += (value - (start[at] ?? 0)) ** 2
    })
  }
  return difference === 0 ? 0 : Math.sqrt(difference / change)
}

/**
 * Creates a model on the server and unloads it; deletes its checkpoints. The model has a seq of its own, so the requests have
 * the recorded contents and not the recorded bytes. Throws `trainer_state_lost` where the parent's state is gone, and as
 * `TrainingServer.send`.
 */
export const recomputeOnServer = async (
  ports: ReadPorts & { server: TrainingServer; signal: AbortSignal },
  state: { weights: WeightsState },
  { sealed, journal, update }: BatchState,
): Promise<Recomputed> => {
  const { server, signal } = ports
  const bound = journal?.binding
  if (!journal || !bound || !update?.event.remote)
    throw new InstarError('internal', `batch ${sealed.number} was not computed on a server`)
  const { wire, keepsGradients } = capabilitiesOf(bound)
  const statePath = await statePathOf(ports, state, sealed)
  const session = await server.openSession(signal)
  const models: string[] = []
  const addresses: string[] = []
  const create = async (seed: number): Promise<string> => {
    const options = { base: bound.baseModel, rank: bound.rank, seed, modelSeq: models.length }
    const { model } = await server.createModel(session, options, signal)
    models.push(model)
    return model
  }
  try {
    if (keepsGradients) await takeLeftGradients(ports, await create(0))
    const model = await create(bound.seed)
    let seq = 1
    if (statePath !== null) await server.send(loadRequest(model, seq++, statePath, { optimizer: true }), signal)
    const adapterOf = async (name: string): Promise<FetchedAdapter> => {
      const save = saveRequest(wire, 'save_weights_for_sampler', model, seq++, name, null)
      const { result } = await server.send(save, signal)
      addresses.push(result.path)
      return server.archive(result.path, ports.model.sha256, signal)
    }
    const parent = await adapterOf('before')
    for (const { event } of journal.requested) {
      const requests = stepRequests(
        { ...bound, model },
        seq,
        sealed,
        await updateOf(ports, sealed, journal, event.pass),
      )
      for (const request of requests) await server.send(request, signal)
      seq += requests.length
    }
    const found = await adapterOf('after')
    const recorded = await getBlob(ports.log, update.event.adapter, update.event.blobsAt)
    return { distance: changeDistance(found.weights, recorded, parent.weights), tensors: found.tensorsSha256 }
  } finally {
    await Promise.allSettled([
      ...addresses.map((path) => server.delete(path, signal)),
      ...models.map((model) => server.unload(model, signal)),
    ])
    server.endSession(session)
  }
}
