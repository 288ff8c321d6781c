/** The end of an update on a server: its weights are saved, the adapter is fetched and stored on the log. */
import { contentSha, InstarError, updateLine, type TrainerBound, type UpdateComputed } from '@instar/events'
import type { TokenFigures } from '@instar/engine/port'
import { putBlob } from '@instar/log'
import { adapterFromWeights } from '@instar/policy'
import { readSafetensors } from '@instar/policy/checkpoints/safetensors'
import { saveRequest, together } from '@instar/tinker'
import { writeRemoteState } from './remote-state.ts'
import { capabilitiesOf, type RemotePorts, type RemoteWork } from './ports.ts'
import { sent } from './requests.ts'

/** Name of a batch's checkpoints on the server. */
const nameOf = (number: number): string => `b${number}`

/** Weights with the optimizer, and the adapter. */
export const saveRequests = (bound: TrainerBound, seq: number, number: number) => {
  const { wire } = capabilitiesOf(bound)
  return [
    saveRequest(wire, 'save_weights', bound.model, seq, nameOf(number), null),
    saveRequest(wire, 'save_weights_for_sampler', bound.model, seq + 1, nameOf(number), null),
  ] as const
}

/** The first tensor with a value that is not finite: no gate would take it. */
const notFinite = (weights: Uint8Array): string | null => {
  for (const [name, { data }] of readSafetensors(weights, 'adapter_model.safetensors'))
    if (data instanceof Float32Array && !data.every(Number.isFinite)) return name
  return null
}

export const finish = async (ports: RemotePorts, work: RemoteWork): Promise<UpdateComputed> => {
  const { state, batch, binding } = work
  const { server, signal, log } = ports
  const { model, url } = binding.event
  const { number } = batch.sealed
  const [save, saveAdapter] = saveRequests(binding.event, binding.seq, number)
  const [saved, savedAdapter] = await together(signal, (own) => [server.send(save, own), server.send(saveAdapter, own)])
  const fetched = await server.archive(savedAdapter.result.path, ports.model.sha256, signal)
  const adapter = adapterFromWeights(fetched.weights)
  const odd = notFinite(adapter.weights)
  if (odd !== null)
    throw new InstarError(
      'update_not_finite',
      `the adapter of batch ${number} has values in ${odd} that are not finite`,
    )
  const trainerState = writeRemoteState({
    tinker: { url, path: saved.result.path, model, adapter: adapter.sha256 },
  })
  const blobsAt = ports.now()
  const stateSha = await putBlob(log, trainerState, blobsAt, signal)
  await putBlob(log, adapter.weights, blobsAt, signal)
  const { product, version } = capabilitiesOf(binding.event)
  const last = batch.journal?.scored.at(-1)?.event
  const first = batch.journal?.scored[0]?.event
  if (!last || !first?.base) throw new Error(`batch ${number} was not scored`)
  return {
    type: 'UpdateComputed',
    prev: updateLine(state.updates, state.policy).chain.tip,
    policy: state.policy,
    batch: batch.id,
    number,
    adapter: adapter.sha256,
    adapterBytes: adapter.weights.length,
    state: stateSha,
    stateBytes: trainerState.length,
    blobsAt,
    fingerprint: {
      engine: 'tinker',
      build: version === null ? product : `${product} ${version}`,
      isa: 'remote',
      threads: 0,
      base: ports.model.sha256,
    },
    figures: figuresOf(work),
    remote: {
      bound: binding.id,
      model,
      statePath: saved.result.path,
      adapterPath: savedAdapter.result.path,
      requests: [sent(save, saved), sent(saveAdapter, savedAdapter)],
      archive: fetched.archiveSha256,
      tensors: fetched.tensorsSha256,
      tensorCount: fetched.tensors,
      config: contentSha(adapter.config),
      rows: last.rows,
      logprobs: last.logprobs,
      logprobsAt: last.blobsAt,
      baseLogprobs: first.base,
      baseAt: first.blobsAt,
    },
    startedAt: first.at,
    at: ports.now(),
  }
}

/** Means over the steps of what changes from step to step. */
const PER_STEP = ['loss', 'policyLoss', 'opdLoss', 'klLoss', 'clipFraction'] as const

/** Sums over the scorings and the steps before them. */
const SUMMED = [
  'forwardPromptTokens',
  'forwardResponseTokens',
  'teacherTokens',
  'backwardPromptTokens',
  'backwardResponseTokens',
] as const satisfies readonly (keyof TokenFigures)[]

/** The figures of the update, by the names that the embedded trainer gives them. */
const figuresOf = ({ batch }: RemoteWork): Record<string, number> => {
  const { scored = [], requested = [] } = batch.journal ?? {}
  const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length
  const norms = scored.flatMap(({ event }) => event.figures.gradNorm ?? [])
  const dropped = scored[0]?.event.dropped ?? []
  const byReason = Map.groupBy(dropped, ({ reason }) => reason)
  const { klParent: _, klBase: __, ...first } = requested[0]?.event.figures ?? {}
  return {
    ...first,
    ...Object.fromEntries(PER_STEP.map((name) => [name, mean(requested.map(({ event }) => event.figures[name] ?? 0))])),
    ...scored.at(-1)?.event.figures,
    ...Object.fromEntries(
      SUMMED.map((name) => [name, scored.reduce((sum, { event }) => sum + (event.figures[name] ?? 0), 0)]),
    ),
    ...(norms.length === 0 ? {} : { gradNorm: mean(norms) }),
    steps: requested.length,
    learningRate: batch.sealed.settings.learningRate ?? 0,
    ...(dropped.length === 0 ? {} : { droppedItems: dropped.length }),
    ...Object.fromEntries([...byReason].map(([reason, own]) => [`dropped_${reason}`, own.length])),
  }
}
