/** Takes up a line on a Tinker server: a model with the weights from which the next batch is computed. */
import { InstarError, updateLine, weightLine, type BatchSealed, type TrainerBound } from '@instar/events'
import { getBlob } from '@instar/log'
import { loadRequest, optimStepRequest } from '@instar/tinker'
import type { Capabilities, TrainingServer } from '@instar/tinker/port'
import { stepSettings } from '../train-item.ts'
import { rankOf } from '../../core/remote-step.ts'
import type { TrainerState } from '../../core/state.ts'
import { readParent } from '../compute.ts'
import type { RemotePorts } from './ports.ts'
import { readRemoteState } from './remote-state.ts'

/** What this process knows of the server. `session`: its own; `models`: created in it. */
export type Connection = {
  /** A random id of this process. */
  trainer: string
  capabilities: Capabilities | null
  session: { id: string; models: number } | null
  /** INSTAR_TRAINER_MODEL; null: the only base model of the server. */
  baseModel: string | null
}

/** The address of the parent's weights and optimizer; null for the base. Throws `trainer_state_lost` and `missing_blob`. */
export const statePathOf = async (
  { log }: Pick<RemotePorts, 'log'>,
  state: Pick<TrainerState, 'weights'>,
  { parent, policy }: BatchSealed,
): Promise<string | null> => {
  if (parent.adapter === null) return null
  const version = weightLine(state.weights, policy).versions.get(parent.version)
  const bytes = parent.state === null ? null : await getBlob(log, parent.state, version?.blobsAt ?? 0)
  const found = bytes && readRemoteState(bytes)
  if (!found)
    throw new InstarError(
      'trainer_state_lost',
      `Version ${parent.version} was ${parent.state === null ? 'imported' : 'not trained on this kind of server'}, and the Tinker API has no call that uploads an adapter.`,
      { version: parent.version },
    )
  return found.tinker.path
}

/** The binding of the last trainer, if its model answers; null otherwise. */
const resumed = async (
  { server, signal }: RemotePorts,
  { session, model, reference }: TrainerBound,
): Promise<boolean> => {
  try {
    await server.resumeSession(session, signal)
    const known = await Promise.all([server.info(model, signal), server.info(reference, signal)])
    return known.every((one) => one !== null)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'trainer_model_lost') return false
    throw error
  }
}

/** Throws `trainer_refused` where none is named and the server has several. */
export const baseModelOf = async (
  server: TrainingServer,
  named: string | null,
  signal: AbortSignal,
): Promise<string> => {
  if (named !== null) return named
  const { models } = await server.hello(signal)
  const [only] = models
  if (only !== undefined && models.length === 1) return only
  throw new InstarError(
    'trainer_refused',
    `The server lists ${models.length} base models (${models.slice(0, 5).join(', ')}); name one in INSTAR_TRAINER_MODEL.`,
    { field: 'INSTAR_TRAINER_MODEL' },
  )
}

/** A checkpoint of the probe's own that the server does not give is not the parent's. */
const probed = async (
  server: TrainingServer,
  base: string,
  rank: number,
  signal: AbortSignal,
): Promise<Capabilities> => {
  try {
    return await server.probe(base, rank, signal)
  } catch (error) {
    if (!(error instanceof InstarError) || error.code !== 'trainer_state_lost') throw error
    throw new InstarError('trainer_denied', `The probe of the server: ${error.message}`, error.details, {
      cause: error,
    })
  }
}

/**
 * `resume`: whether the model of the last binding has the batch's weights. The models of a binding that is not taken up are
 * unloaded, and those that were created here where a later step fails. A session in which a model may be left is ended: the
 * server unloads it with the session.
 */
export const bind = async (
  ports: RemotePorts,
  connection: Connection,
  state: TrainerState,
  sealed: BatchSealed,
  resume: boolean,
): Promise<TrainerBound> => {
  const { server, signal, model: base } = ports
  const line = updateLine(state.updates, state.policy)
  const last = line.binding?.event ?? null
  const common = {
    type: 'TrainerBound',
    prev: line.chain.tip,
    policy: state.policy,
    epoch: (last?.epoch ?? 0) + 1,
    trainer: connection.trainer,
  } as const
  if (last && resume && last.url === server.url && (await resumed(ports, last)))
    return { ...last, ...common, at: ports.now() }
  const statePath = await readParent(sealed, () => statePathOf(ports, state, sealed))
  const { seed } = stepSettings(sealed)
  const rank = rankOf(state, sealed)
  const baseModel = await baseModelOf(server, connection.baseModel, signal)
  connection.capabilities ??= await probed(server, baseModel, rank, signal)
  if (last) await release(ports, connection, last)
  const own = (connection.session ??= { id: await server.openSession(signal), models: 0 })
  const created: string[] = []
  const create = async (modelSeed: number): Promise<string> => {
    const options = { base: baseModel, rank, seed: modelSeed, modelSeq: own.models++ }
    const { model } = await server.createModel(own.id, options, signal)
    created.push(model)
    return model
  }
  try {
    if (connection.capabilities.keepsGradients) await takeLeftGradients(ports, await create(0))
    const model = await create(seed)
    if (statePath !== null) await server.send(loadRequest(model, 1, statePath, { optimizer: true }), signal)
    return {
      ...common,
      url: server.url,
      capabilities: JSON.stringify(connection.capabilities),
      base: { name: base.name, sha256: base.sha256 },
      baseModel,
      session: own.id,
      model,
      reference: await create(0),
      parent: sealed.parent,
      statePath,
      rank,
      seed,
      at: ports.now(),
    }
  } catch (error) {
    const unloaded = await unloadAll(ports, created)
    if (!unloaded || mayHoldMore(error)) endSession(server, connection, own.id)
    throw error
  }
}

/** A model whose creation was not answered may be there, and a session that the server does not know is of no use. */
const mayHoldMore = (error: unknown): boolean =>
  !(error instanceof InstarError) || ['trainer_lost', 'trainer_model_lost', 'trainer_mismatch'].includes(error.code)

/** Unloads the models of a binding that is not taken up, and ends its session if that is another one, or one stays in it. */
const release = async (
  ports: RemotePorts,
  connection: Connection,
  { session, model, reference }: TrainerBound,
): Promise<void> => {
  const unloaded = await unloadAll(ports, [model, reference])
  if (!unloaded || session !== connection.session?.id) endSession(ports.server, connection, session)
}

/** Ends the heartbeats of a session; the next model is created in another one. */
export const endSession = (server: TrainingServer, connection: Connection, session: string): void => {
  server.endSession(session)
  if (connection.session?.id === session) connection.session = null
}

/**
 * A step without a pass, which takes the gradients that an unloaded model has left in the place of `model`; the next model
 * has that place. At rate 0, and `model` is thrown away with its moments.
 */
export const takeLeftGradients = async (
  { server, signal }: Pick<RemotePorts, 'server' | 'signal'>,
  model: string,
): Promise<void> => {
  const still = { learningRate: 0, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, gradClipNorm: 0 }
  await server.send(optimStepRequest(model, 1, still), signal)
  await server.unload(model, signal)
}

/** False: one could not be unloaded, and is there as long as its session. */
const unloadAll = async ({ server, signal }: RemotePorts, models: readonly string[]): Promise<boolean> => {
  const unloaded = await Promise.allSettled(models.map((model) => server.unload(model, signal)))
  signal.throwIfAborted()
  return unloaded.every(({ status }) => status === 'fulfilled')
}
