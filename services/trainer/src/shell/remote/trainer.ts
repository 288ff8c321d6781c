/** Computes sealed batches on a Tinker server, one record at a time (core/remote-step.ts). */
import { encodeEvent, InstarError, updateLine, type BatchState, type Event, type UpdatesEvent } from '@instar/events'
import { versionsOn } from '@instar/log'
import { failed, openBatch } from '../../core/decide.ts'
import { expiredVersion, rejectedUpdate } from '../../core/checkpoints.ts'
import { isRankOfBatch, isRefusalOfBatch, rankOf, remoteStep, type RemoteStep } from '../../core/remote-step.ts'
import type { TrainerState } from '../../core/state.ts'
import { bind, endSession, type Connection } from './bind.ts'
import type { TrainingServer } from '@instar/tinker/port'
import { finish } from './finish.ts'
import { Precedence } from './precedence.ts'
import type { TrainingServerOptions } from './open.ts'
import type { RemotePorts, RemoteWork } from './ports.ts'
import { mayBeAboutRank, refusesRank } from './rank.ts'
import { score } from './score.ts'
import { stepRequests, unsent, updateOf } from './requests.ts'

export type RemoteOptions = TrainingServerOptions & {
  /** Versions whose checkpoints stay on the server. */
  keepStates: number
  /** `training.rank` in force: of the batches that are sealed from now on. */
  rank: number
}

/** Errors after which the model of the binding is not used again: another one is created from the parent's state. */
const MODEL_FAULTS: readonly string[] = ['trainer_model_lost', 'trainer_seq_used', 'trainer_failed']
/**
 * Batches in a row that are spent where the server has no finite log-probability of their answers and the probe passes. Of one turn
 * it may be the turn's fault, whoever has none; of several it is the base's for prompts of their kind, or the parent's.
 */
const MOST_SPENT = { one: 16, several: 1 }
const mostSpent = ({ details: { notFinite, turns } }: InstarError): number =>
  notFinite === undefined ? 0 : turns === 1 ? MOST_SPENT.one : notFinite === 'base' ? MOST_SPENT.several : 0
/** Models in a row that one batch may lose. Then it has failed: it would lose the next one too. */
const MAX_MODELS = 5

export class RemoteTrainer {
  private readonly options: RemoteOptions
  private readonly connection: Connection
  private server: TrainingServer | null = null
  /** Record id of this process's TrainerBound. */
  private mine: string | null = null
  private readonly precedence = new Precedence()
  private readonly lost = new Set<string>()
  private losses = { batch: '', count: 0 }
  /** The last batch of which an answer did not fit its request. */
  private mismatched = ''
  /** Batches in a row that were spent because the server has no finite log-probability of them. */
  private spent = 0

  constructor(options: RemoteOptions) {
    this.options = options
    this.connection = {
      trainer: options.trainer,
      capabilities: null,
      session: null,
      baseModel: options.baseModel,
    }
  }

  /**
   * The next record of the batch; null if there is none and the decision is to be made again. Throws what is not the
   * batch's fault as errors that are retried: `parent_lost` and `trainer_state_lost` for the parent's state,
   * `trainer_denied` for a server that refuses the trainer, or whose answers do not fit, and for every error while the server
   * is connected to or the line is taken up.
   */
  async act(given: Omit<RemotePorts, 'server'>, state: TrainerState, id: string): Promise<Event | null> {
    const server = (this.server ??= await this.connect(given.signal))
    const ports = { ...given, server }
    const batch = openBatch(state, id)
    if (!batch) return null
    if (await this.precedence.yields(updateLine(state.updates, state.policy), this.mine, given.signal)) return null
    const step = remoteStep(state, batch, this.mine, this.lost)
    try {
      const event = await this.take(ports, state, batch, step)
      if (step.do !== 'bind' && !this.isOpen(state, id)) return null
      if (step.do === 'score') this.spent = 0
      if (step.do === 'finish') await deleteQuietly(ports, expiredVersion(state, this.options.keepStates))
      return event
    } catch (error) {
      ports.signal.throwIfAborted()
      if (step.do !== 'bind' && !this.isOpen(state, id)) return null
      if (step.do === 'bind') return this.afterBind(ports, state, batch, error)
      if (!(error instanceof InstarError)) throw error
      if (isModelFault(error, step) || this.isFirstMismatch(error, id))
        return this.afterLoss(ports, state, batch, error)
      if (this.spent < mostSpent(error)) {
        this.spent += 1
        return failed(state, id, `update_not_finite: ${error.message}`, ports.now())
      }
      if (error.details['notFinite'] === 'parent') throw new InstarError('trainer_state_lost', error.message)
      throw isRefusalOfBatch(error, step) ? error : denied(error)
    }
  }

  private async connect(signal: AbortSignal): Promise<TrainingServer> {
    try {
      return await this.options.connect(signal)
    } catch (error) {
      signal.throwIfAborted()
      throw waited(error)
    }
  }

  /** Whether the batch has no outcome yet and no other trainer has taken up the line. */
  private isOpen(state: TrainerState, id: string): boolean {
    return openBatch(state, id) !== null && updateLine(state.updates, state.policy).binding?.id === this.mine
  }

  /** Ends the heartbeats of its sessions. */
  async close(): Promise<void> {
    await this.server?.close()
  }

  private async take(
    ports: RemotePorts,
    state: TrainerState,
    batch: BatchState,
    step: RemoteStep,
  ): Promise<UpdatesEvent | null> {
    const { sealed } = batch
    const { binding } = updateLine(state.updates, state.policy)
    if (step.do === 'bind') {
      const rejected = step.resume ? [] : rejectedUpdate(state)
      const bound = await bind(ports, this.connection, state, sealed, step.resume)
      await deleteQuietly(ports, rejected)
      this.mine = encodeEvent(bound, versionsOn(ports.log)).id
      return bound
    }
    if (!binding) throw new InstarError('internal', 'a line without a binding has nothing to compute')
    const work: RemoteWork = { state, batch, binding }
    ports.onProgress(shareOf(batch))
    switch (step.do) {
      case 'score':
        return score(ports, work, step.pass)
      case 'request':
        return request(ports, work, step.pass)
      case 'finish':
        return finish(ports, work)
    }
  }

  /**
   * A server may give a stored answer for ever to the request that it was made for, so that one new model is tried for each
   * batch in each process; then the requests are repeated until the server is mended.
   */
  private isFirstMismatch({ code }: InstarError, batch: string): boolean {
    if (!MISFITS.includes(code) || this.mismatched === batch) return false
    this.mismatched = batch
    return true
  }

  /** A binding that fails has computed nothing of the batch: it is repeated without limit, but for a rank of the batch's own. */
  private async afterBind(
    ports: RemotePorts,
    state: TrainerState,
    { id, sealed }: BatchState,
    error: unknown,
  ): Promise<Event | null> {
    const { rank } = this.options
    const own = rankOf(state, sealed)
    const isAbout = mayBeAboutRank(error) && isRankOfBatch(state, sealed, rank)
    if (isAbout && (await refusesRank(ports, this.connection, own, rank))) {
      const ranks = `The batch has rank ${own}; training.rank is ${rank} now, for the next one.`
      return failed(state, id, `${error.code}: ${error.message} ${ranks}`, ports.now())
    }
    if (error instanceof InstarError && MODEL_FAULTS.includes(error.code)) this.forget(ports, state)
    throw waited(error)
  }

  private afterLoss(ports: RemotePorts, state: TrainerState, batch: BatchState, error: InstarError): Event | null {
    this.forget(ports, state)
    this.losses = { batch: batch.id, count: this.losses.batch === batch.id ? this.losses.count + 1 : 1 }
    if (this.losses.count < MAX_MODELS) return null
    const reason = `${error.code}: ${error.message} This happened on ${MAX_MODELS} models in a row.`
    return failed(state, batch.id, reason, ports.now())
  }

  /** The models of the binding are not used again, and the server is probed anew. */
  private forget(ports: RemotePorts, state: TrainerState): void {
    const bound = updateLine(state.updates, state.policy).binding?.event
    if (bound) this.lost.add(bound.model)
    for (const session of [bound?.session, this.connection.session?.id])
      if (session !== undefined) endSession(ports.server, this.connection, session)
    this.connection.capabilities = null
  }
}

/** Of the model itself, or of the checkpoint that it has just saved: another model computes the batch again. */
const isModelFault = ({ code }: InstarError, step: RemoteStep): boolean =>
  MODEL_FAULTS.includes(code) || (step.do === 'finish' && code === 'trainer_state_lost')

/** Answers and files that are not those of the Tinker API. */
const MISFITS: readonly string[] = ['trainer_mismatch', 'bad_checkpoint']
/** Answers that are given again until an operator acts: they are waited for, so that no batch is spent on them. */
const DENIALS: readonly string[] = ['trainer_refused', 'trainer_seq_used', ...MISFITS]
const asDenied = ({ message }: Error, details: InstarError['details'], cause: unknown): InstarError =>
  new InstarError('trainer_denied', message, details, { cause })
const denied = (error: InstarError): InstarError =>
  DENIALS.includes(error.code) ? asDenied(error, error.details, error) : error

/** Before a model is bound, nothing that fails is the batch's: an error that would not be retried becomes `trainer_denied`. */
const waited = (error: unknown): unknown => {
  if (!(error instanceof InstarError)) return asDenied(error as Error, {}, error)
  const isRetried = error.retryable && error.code !== 'internal'
  return isRetried || error.code === 'snapshot_damaged' ? error : asDenied(error, error.details, error)
}

/** The record of the requests of the step after `pass`; UpdateFailed if it has nothing to learn or is not finite. */
const request = async (
  ports: RemotePorts,
  { state, batch, binding }: RemoteWork,
  pass: number,
): Promise<UpdatesEvent | null> => {
  const { sealed, journal } = batch
  if (!journal) throw new InstarError('internal', `batch ${sealed.number} was not scored`)
  const update = await updateOf(ports, sealed, journal, pass)
  if (!update.hasSignal) return failed(state, batch.id, 'no_signal', ports.now())
  if (![update.figures.loss, ...update.gradients.flatMap((own) => Array.from(own))].every(Number.isFinite))
    throw new InstarError('update_not_finite', `the loss of batch ${sealed.number} is ${update.figures.loss}`)
  return {
    type: 'UpdateRequested',
    prev: updateLine(state.updates, state.policy).chain.tip,
    policy: state.policy,
    batch: batch.id,
    number: sealed.number,
    bound: binding.id,
    model: binding.event.model,
    pass,
    requests: stepRequests(binding.event, binding.seq, sealed, update).map((one) => unsent(one)),
    figures: { ...update.figures },
    at: ports.now(),
  }
}

/** The part of the batch's records that are there, 0…1. */
const shareOf = ({ journal, sealed }: BatchState): number => {
  const { epochs = 1 } = sealed.settings
  return ((journal?.scored.length ?? 0) + (journal?.requested.length ?? 0)) / (2 * epochs + 2)
}

/** A checkpoint that cannot be deleted costs room on the server, not the update. */
const deleteQuietly = async ({ server, signal }: RemotePorts, paths: readonly string[]): Promise<void> => {
  for (const path of paths) {
    try {
      await server.delete(path, signal)
    } catch {
      signal.throwIfAborted()
    }
  }
}
