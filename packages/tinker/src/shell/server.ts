/** The port over HTTP. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject, parseJsonObject } from '@instar/events/json'
import {
  forwardBackwardRequests,
  forwardRequests,
  JSON_TYPE,
  loadRequest,
  optimStepRequest,
  saveRequest,
} from '../core/requests.ts'
import { refusal } from '../core/refusals.ts'
import { parsePath } from '../core/paths.ts'
import { contextLengthsOf } from '../core/capabilities.ts'
import { resultOf } from '../core/results.ts'
import type {
  AdamParams,
  Answer,
  Capabilities,
  FetchedAdapter,
  Hello,
  ModelOptions,
  Prepared,
  RequestKind,
  Results,
  ScoreRow,
  TrainingServer,
  TrainRow,
  Wire,
} from '../port.ts'
import { fetchAdapter } from './archive.ts'
import { Checkpoints, type Checkpoint } from './checkpoints.ts'
import { SavedBefore, type Futures, type Patience } from './futures.ts'
import type { TinkerHttp } from './http.ts'
import { probeServer } from './probe.ts'
import { Sessions } from './sessions.ts'
import { serverProduct } from './wire.ts'

export type ServerParts = {
  http: TinkerHttp
  futures: Futures
  patience: Patience
  wire: Wire
  heartbeatMs?: number
  /** Of an adapter's archive, packed and unpacked. */
  archiveBytesMax: number
}

export class TinkerServer implements TrainingServer {
  readonly url: string
  #wire: Wire
  readonly #http: TinkerHttp
  readonly #futures: Futures
  readonly #sessions: Sessions
  readonly #checkpoints: Checkpoints
  readonly #patience: Patience
  readonly #archiveBytesMax: number

  constructor({ http, futures, patience, wire, heartbeatMs, archiveBytesMax }: ServerParts) {
    this.url = http.url
    this.#wire = wire
    this.#http = http
    this.#futures = futures
    this.#sessions = new Sessions(http, futures, heartbeatMs)
    this.#checkpoints = new Checkpoints(http, futures, patience.resultMs)
    this.#patience = patience
    this.#archiveBytesMax = archiveBytesMax
  }

  /** A probe may find that fewer rows fit a request than the server states. */
  get wire(): Wire {
    return this.#wire
  }

  async hello(signal?: AbortSignal): Promise<Hello> {
    const path = '/api/v1/get_server_capabilities'
    const response = await this.#futures.ask('get_server_capabilities', { method: 'GET', path }, signal)
    const text = this.#http.textOf(response)
    if (response.status !== 200) throw refusal(this.url, 'get_server_capabilities', response.status, text)
    const body = parseJsonObject(text)
    const listed = body?.['supported_models']
    if (!Array.isArray(listed))
      throw new InstarError(
        'trainer_mismatch',
        `${this.url} lists no supported_models: it is no server of the Tinker API`,
      )
    const models = listed.flatMap((entry: unknown) => {
      const name = isJsonObject(entry) ? entry['model_name'] : entry
      return typeof name === 'string' ? [name] : []
    })
    const product = await serverProduct(this.#futures, this.#http, signal)
    return { ...product, models, contextLengths: contextLengthsOf(body ?? {}) }
  }

  /** A server that refuses a pass is probed again with one row a request, which is all that some take. */
  async probe(base: string, rank: number, signal?: AbortSignal): Promise<Capabilities> {
    const probe = (): Promise<Capabilities> => probeServer(this, this.#futures, this.#http, { base, rank }, signal)
    const stated = this.#wire
    try {
      return await probe()
    } catch (error) {
      if (stated.rowsMax === 1 || !refusesPass(error)) throw error
      this.#wire = { ...stated, rowsMax: 1 }
      return await probe().catch(() => {
        this.#wire = stated
        throw error
      })
    }
  }

  openSession(signal?: AbortSignal): Promise<string> {
    return this.#sessions.open(signal)
  }

  resumeSession(session: string, signal?: AbortSignal): Promise<void> {
    return this.#sessions.resume(session, signal)
  }

  endSession(session: string): void {
    this.#sessions.end(session)
  }

  async createModel(
    session: string,
    { base, rank, seed, modelSeq }: ModelOptions,
    signal?: AbortSignal,
  ): Promise<{ model: string; requestId: string }> {
    const body = {
      session_id: session,
      model_seq_id: modelSeq,
      base_model: base,
      lora_config: { rank, seed, train_unembed: false, train_mlp: true, train_attn: true },
      type: 'create_model',
    }
    const bytes = new TextEncoder().encode(JSON.stringify(body))
    const outcome = await this.#futures.run(
      `${session}/${modelSeq}`,
      { kind: 'create_model', path: '/api/v1/create_model', bytes, contentType: JSON_TYPE, repeatable: false },
      signal,
    )
    const result = parseJsonObject(Buffer.from(outcome.bytes).toString('utf8'))
    const model = result?.['model_id'] ?? outcome.body['model_id']
    if (typeof model !== 'string' || !/^[A-Za-z0-9_:.-]{1,255}$/.test(model))
      throw new InstarError('trainer_mismatch', `${this.url} created a model without a usable model_id`)
    return { model, requestId: outcome.requestId }
  }

  async info(model: string, signal?: AbortSignal): Promise<{ base: string; rank: number | null } | null> {
    const body = { model_id: model, type: 'get_info' }
    const response = await this.#futures.ask('get_info', { method: 'POST', path: '/api/v1/get_info', body }, signal)
    const text = this.#http.textOf(response)
    if (response.status === 404) return null
    if (response.status !== 200) throw refusal(this.url, 'get_info', response.status, text)
    const data = parseJsonObject(text)?.['model_data']
    const base = isJsonObject(data) ? (data['base_model'] ?? data['model_name']) : null
    const lora: unknown = isJsonObject(data) ? data['lora_config'] : null
    if (typeof base !== 'string')
      throw new InstarError('trainer_mismatch', `${this.url} gives no base_model of ${model}`)
    return { base, rank: isJsonObject(lora) && typeof lora['rank'] === 'number' ? lora['rank'] : null }
  }

  async unload(model: string, signal?: AbortSignal): Promise<void> {
    const bytes = new TextEncoder().encode(JSON.stringify({ model_id: model, type: 'unload_model' }))
    const { unloadMs } = this.#patience
    const limit = AbortSignal.timeout(unloadMs)
    try {
      await this.#futures.run(
        model,
        { kind: 'unload_model', path: '/api/v1/unload_model', bytes, contentType: JSON_TYPE, repeatable: true },
        signal ? AbortSignal.any([signal, limit]) : limit,
      )
    } catch (error) {
      if (limit.aborted && error === limit.reason)
        throw new InstarError('trainer_lost', `${this.url} has not unloaded ${model} after ${unloadMs} ms`)
      if (!(error instanceof InstarError) || error.code !== 'trainer_model_lost') throw error
    }
  }

  prepareForward(model: string, seq: number, rows: readonly ScoreRow[]): Prepared<'forward'>[] {
    return forwardRequests(this.wire, model, seq, rows)
  }

  prepareForwardBackward(model: string, seq: number, rows: readonly TrainRow[]): Prepared<'forward_backward'>[] {
    return forwardBackwardRequests(this.wire, model, seq, rows)
  }

  prepareOptimStep(model: string, seq: number, params: AdamParams): Prepared<'optim_step'> {
    return optimStepRequest(model, seq, params)
  }

  prepareLoad(model: string, seq: number, path: string, options: { optimizer: boolean }): Prepared<'load_weights'> {
    return loadRequest(model, seq, path, options)
  }

  prepareSave(model: string, seq: number, name: string, ttlSeconds: number | null = null): Prepared<'save_weights'> {
    return saveRequest(this.wire, 'save_weights', model, seq, name, ttlSeconds)
  }

  prepareSaveForSampler(
    model: string,
    seq: number,
    name: string,
    ttlSeconds: number | null = null,
  ): Prepared<'save_weights_for_sampler'> {
    return saveRequest(this.wire, 'save_weights_for_sampler', model, seq, name, ttlSeconds)
  }

  async send<K extends RequestKind>(request: Prepared<K>, signal?: AbortSignal): Promise<Answer<K>> {
    const { kind, model, bytes, contentType, endpoint } = request
    try {
      const outcome = await this.#futures.run(
        model,
        { kind, path: endpoint, bytes, contentType, repeatable: true },
        signal,
      )
      return {
        requestId: outcome.requestId,
        responseSha256: outcome.sha256,
        result: resultOf(request, outcome.bytes, outcome.contentType),
      }
    } catch (error) {
      if (!(error instanceof SavedBefore)) throw error
      const path = await this.#checkpoints.written(
        model,
        kind === 'save_weights' ? 'weights' : 'sampler_weights',
        request.path ?? '',
        signal,
      )
      return { requestId: null, responseSha256: null, result: { path } as Results[K] }
    }
  }

  checkpoints(model: string, signal?: AbortSignal): Promise<Checkpoint[]> {
    return this.#checkpoints.list(model, signal)
  }

  archive(path: string, base: string, signal?: AbortSignal): Promise<FetchedAdapter> {
    const { run, name } = parsePath(path)
    return fetchAdapter(
      this.#http,
      { run, name, base, from: this.wire.adapters, bytesMax: this.#archiveBytesMax },
      this.#patience,
      signal,
    )
  }

  delete(path: string, signal?: AbortSignal): Promise<void> {
    return this.#checkpoints.delete(path, signal)
  }

  async close(): Promise<void> {
    this.#sessions.close()
    this.#futures.close()
    await this.#http.close()
  }
}

/** Statuses of a request that is refused for its content. */
const OF_CONTENT = new Set<unknown>([undefined, 400, 413, 422])

/** Whether a pass was refused for its content, or ran and failed. */
const refusesPass = (error: unknown): boolean =>
  error instanceof InstarError &&
  (error.code === 'trainer_refused' || error.code === 'trainer_failed') &&
  (error.details['kind'] === 'forward' || error.details['kind'] === 'forward_backward') &&
  OF_CONTENT.has(error.details['status'])
