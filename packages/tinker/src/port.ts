/**
 * A server that trains LoRA adapters over the Tinker API, as the trainer uses it. Types only.
 *
 * A heavy call has two halves. `prepare*` is pure: it gives the bytes of the request and their sha256, which the caller
 * records on the log. `send` sends them; it is idempotent, since a server answers a repeated (model, seq) with the first
 * one's result and refuses other bytes (`trainer_seq_used`). Exceptions stand at `send`.
 *
 * The requests of one model have seqs 1, 2, 3, … without gaps: a server may hold a request back until all earlier ones
 * arrived. A request that was refused when it was handed in (`trainer_refused` with a status in its details) has not used
 * its seq. Requests run in the order of their seqs; gradients add up until `optim_step`.
 */
import type { ErrorCode } from '@instar/events/errors'

/** How requests are encoded. Recorded with the server, since the bytes of each request depend on it. */
export type Wire = {
  /** Of `forward` and `forward_backward`; all else is JSON. */
  format: 'protobuf' | 'json'
  /** Most rows and most bytes of one request; more are cut into several requests with consecutive seqs. */
  rowsMax: number
  bytesMax: number
  /** How adapters leave the server: one archive, or a save of its own kind whose files have signed addresses. */
  adapters: 'archive' | 'external_weights'
}

/**
 * One sequence to score. `tokens`: its ids without the last one; `targets`: its ids without the first one, so
 * `targets[i]` follows `tokens[i]`. Both have the same length, at least 1.
 */
export type ScoreRow = { tokens: readonly number[]; targets: readonly number[] }

/**
 * One sequence to train on, under `importance_sampling`: the loss is the sum over i of
 * −exp(lp_i − logprobs[i]) · advantages[i], lp_i being the log-prob of `targets[i]`. With `logprobs` equal to the lp of
 * a `forward` on the same weights its gradient is −Σ advantages[i] · ∇lp_i, so any loss L(lp) is trained by
 * advantages[i] = −∂L/∂lp_i. All four have the same length.
 */
export type TrainRow = ScoreRow & { logprobs: readonly number[]; advantages: readonly number[] }

/**
 * What divides the sum of the losses of a step's rows. `sum`: nothing. `sequence_mean`: each row is divided by its
 * number of targets, and the sum of rows by the number of rows since the last `optim_step`. `token_mean`: the sum by the
 * number of targets of all rows.
 */
export type Reduction = 'sum' | 'sequence_mean' | 'token_mean'

/** `gradClipNorm`: largest norm of the gradient; 0: not clipped. Many servers ignore it (`Capabilities.gradClip`). */
export type AdamParams = {
  learningRate: number
  beta1: number
  beta2: number
  epsilon: number
  weightDecay: number
  gradClipNorm: number
}

/** What a request gives. */
export type Results = {
  /** Log-probs (nats, temperature 1) of the targets, for each row of the request; `metrics`: the server's own. */
  forward: { logprobs: Float32Array[]; metrics: Readonly<Record<string, number>> }
  forward_backward: { logprobs: Float32Array[]; metrics: Readonly<Record<string, number>> }
  /** `gradNorm`: norm of the gradient under the server's reduction; null: not reported, NaN: reported, and not finite. */
  optim_step: { gradNorm: number | null; metrics: Readonly<Record<string, number>> }
  load_weights: { path: string }
  /** Address `tinker://MODEL/weights/NAME` of weights and optimizer state. */
  save_weights: { path: string }
  /** Address of the adapter's files, for `archive`. */
  save_weights_for_sampler: { path: string }
}
export type RequestKind = keyof Results

/** `sha256`: hex, of `bytes`. `lengths`: targets of each row; empty where a request has no rows. */
export type Prepared<K extends RequestKind = RequestKind> = {
  kind: K
  model: string
  seq: number
  sha256: string
  bytes: Uint8Array
  contentType: string
  /** Path of the request. */
  endpoint: string
  lengths: readonly number[]
  /** The name or address that a save or load is about; null for others. */
  path: string | null
}

/**
 * `requestId`: the server's id of the request; null where a save had been made by an earlier send whose answer was lost.
 * `responseSha256`: hex, of the response's body; null as `requestId`.
 */
export type Answer<K extends RequestKind> = {
  requestId: string | null
  responseSha256: string | null
  result: Results[K]
}

/**
 * What the probe found, by requests to a model of its own. Plain values: recorded with each binding, and as a map of
 * strings by `capabilitiesMap`.
 */
export type Capabilities = {
  /** `skyrl`, `tuft`, … as the server names itself; `unknown`. */
  product: string
  version: string | null
  wire: Wire
  /** Base models that the server lists. */
  models: readonly string[]
  /**
   * Tokens that a row of the base model may have, prompt and answer together, as the server states it; null: it states
   * nothing. Records of earlier builds lack it.
   */
  contextLength?: number | null
  reduction: Reduction
  /** `AdamParams.gradClipNorm` has an effect. */
  gradClip: boolean
  /** `optim_step` reports the norm of the gradient. */
  gradNorm: boolean
  /** Loss functions that the server accepts, sorted. */
  losses: readonly string[]
  /** Of the adapter's files: LoRA alpha (null: the config does not say), and names of the modules, sorted. */
  alpha: number | null
  targets: readonly string[]
  /** Log-probs of prompt tokens by `asample`: `full` (an empty first entry), `without_first`, `none`. */
  promptLogprobs: 'full' | 'without_first' | 'none'
  /** Form of the address of `save_weights_for_sampler`: with the kind of checkpoint, or without. */
  samplerPath: 'typed' | 'plain'
  /** The same request twice gives the same result; other bytes under a used seq are refused. */
  repeatable: boolean
  /** A row with one advantage too few is refused. (The client checks lengths itself.) */
  checksLengths: boolean
  /** A new model that loaded a saved state gives the log-probs of the saved one. */
  resumes: boolean
  /**
   * The gradients of a model that is unloaded before its step, and their number of rows, are added to those of the next
   * model in its place (SkyRL 0.4.0 on JAX). Records of earlier builds lack it.
   */
  keepsGradients?: boolean
  /**
   * Targets at the beginning of a row have the log-probs and the gradients that they have in a row of their own, so the
   * turns of a session may share one. Records of earlier builds lack it.
   */
  sharesPrefixes?: boolean
  /** A request without a key is refused; null: it was not answered. */
  requiresKey: boolean | null
}

/** One file of an adapter's archive; `name` without folders. */
export type ArchiveFile = { name: string; bytes: Uint8Array }

/**
 * An adapter in PEFT's form. `weights`: `adapter_model.safetensors` with the server's tensors, written anew: names as
 * PEFT has them, sorted; metadata `base_model_name_or_path`, `format`, `lora_alpha`. `config`: `adapter_config.json`
 * written anew. Rank and target modules come from the tensors, alpha from the server's config.
 */
export type FetchedAdapter = {
  weights: Uint8Array
  config: Readonly<Record<string, unknown>>
  rank: number
  alpha: number
  targets: readonly string[]
  /** Number of tensors, two for each module. */
  tensors: number
  /** Hex sha256: of the archive's bytes; over the sorted tensors (name, dtype, shape, bytes); of `config` as JSON. */
  archiveSha256: string
  tensorsSha256: string
  configSha256: string
}

/** `targets`: which parts of the model get a LoRA; servers may ignore it, `Capabilities.targets` tells. */
export type ModelOptions = {
  base: string
  rank: number
  /** Of the initial LoRA weights. */
  seed: number
  /** Counts the models of a session from 0. */
  modelSeq: number
}

/** `contextLengths`: `max_context_length` of those base models for which the server states one. */
export type Hello = {
  product: string
  version: string | null
  models: readonly string[]
  contextLengths: ReadonlyMap<string, number>
}

/** The codes with which calls of a training server fail; an aborted call rejects with its signal's reason. */
export type TrainerErrorCode = Extract<ErrorCode, `trainer_${string}` | 'bad_checkpoint' | 'bad_request' | 'stopping'>

export interface TrainingServer {
  /** Without user, password and key. */
  readonly url: string
  /** Decided by `connect`, or given to it from the record of the binding. */
  readonly wire: Wire

  /** Base models that the server lists, and what it says of itself. Cheap, changes nothing: shows that it answers. */
  hello(signal?: AbortSignal): Promise<Hello>
  /**
   * Creates models of `base`, trains one a step, fetches its adapter and unloads them. Takes from seconds to minutes
   * (a server may compile first). Rejects with `trainer_mismatch` for a server whose reduction is none of `Reduction`.
   */
  probe(base: string, rank: number, signal?: AbortSignal): Promise<Capabilities>

  /** A new session of the server, kept alive until `close` or `endSession`. */
  openSession(signal?: AbortSignal): Promise<string>
  /** Keeps a session of an earlier process alive. Rejects with `trainer_model_lost` if the server does not know it. */
  resumeSession(session: string, signal?: AbortSignal): Promise<void>
  endSession(session: string): void

  /**
   * A new model with a LoRA whose B matrices are zero. Not idempotent on every server: where the answer was lost, create
   * another one; the first is unloaded by the server when its session ends.
   */
  createModel(
    session: string,
    options: ModelOptions,
    signal?: AbortSignal,
  ): Promise<{ model: string; requestId: string }>
  /** Whether the server knows the model. One that it has unloaded or lost in a restart may still be known. */
  info(model: string, signal?: AbortSignal): Promise<{ base: string; rank: number | null } | null>
  /**
   * Frees the model's memory, after the requests of the model that are open here. A model that is not there is no error.
   * `trainer_lost` where that takes longer than a minute: the server unloads it with its session.
   */
  unload(model: string, signal?: AbortSignal): Promise<void>

  /** One request for each part of the rows, with seqs from `seq`; the lengths of a row must be equal (`bad_request`). */
  prepareForward(model: string, seq: number, rows: readonly ScoreRow[]): Prepared<'forward'>[]
  prepareForwardBackward(model: string, seq: number, rows: readonly TrainRow[]): Prepared<'forward_backward'>[]
  prepareOptimStep(model: string, seq: number, params: AdamParams): Prepared<'optim_step'>
  /** Only as the first request (seq 1) of a new model. `optimizer`: with the moments of Adam. */
  prepareLoad(model: string, seq: number, path: string, options: { optimizer: boolean }): Prepared<'load_weights'>
  /** `name`: 1 to 255 of A–Z a–z 0–9 _ -, used once for each model. `ttlSeconds` null: kept until `delete`. */
  prepareSave(model: string, seq: number, name: string, ttlSeconds?: number | null): Prepared<'save_weights'>
  prepareSaveForSampler(
    model: string,
    seq: number,
    name: string,
    ttlSeconds?: number | null,
  ): Prepared<'save_weights_for_sampler'>

  /**
   * Sends a request and awaits its result. Without awaiting, further requests of the model may be sent: they leave in the
   * order of the calls, passes at once, all else when the results of those before it are there. If one fails, those
   * behind it are not sent and reject with its error. Retries what a retry can mend.
   *
   * - `trainer_lost`: no answer within the limits. The request may run; send it again.
   * - `trainer_model_lost`: the server does not hold the model (restart, expired session). New model, load the state.
   * - `trainer_state_lost`: `load_weights` of a checkpoint that is not there.
   * - `trainer_seq_used`: another request had this seq. Another process trains this model, or this one is not
   *   deterministic.
   * - `trainer_full`: no room for another model; unload one.
   * - `trainer_refused`: the server refuses this request and would again (also: key, billing).
   * - `trainer_failed`: the request ran and failed; its gradients did not count.
   * - `trainer_mismatch`: the answer does not fit the request or the wire.
   */
  send<K extends RequestKind>(request: Prepared<K>, signal?: AbortSignal): Promise<Answer<K>>

  /** Addresses of the checkpoints of a model. */
  checkpoints(model: string, signal?: AbortSignal): Promise<{ path: string; kind: 'weights' | 'sampler_weights' }[]>
  /**
   * The adapter of an address of `save_weights_for_sampler`. `base`: for `base_model_name_or_path`. Rejects with
   * `bad_checkpoint` for hostile or odd files, `trainer_state_lost` for an adapter that is not there.
   */
  archive(path: string, base: string, signal?: AbortSignal): Promise<FetchedAdapter>
  /** Deletes a checkpoint. One that is not there is no error. */
  delete(path: string, signal?: AbortSignal): Promise<void>

  /** Ends heartbeats and connections. Models stay on the server until their session expires (SkyRL: 300 s). */
  close(): Promise<void>
}
