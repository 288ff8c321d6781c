/**
 * A server of the Tinker API in one process: the surface and the errors of SkyRL 0.4.0 (JAX backend) around a bigram model
 * with real arithmetic. `restart` forgets loaded models and keeps futures and checkpoints, as SkyRL's does.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Base, BigramLora, type Reduction, type State } from './tinker-bigram.ts'
import { packAdapter, readPass, writeOutput, writeSafetensors, writeSample, type Pass } from './tinker-wire.ts'

type Body = Record<string, unknown>
export type TinkerSeen = {
  method: string
  path: string
  body: Body
  bytes: Buffer
  headers: IncomingMessage['headers']
}
export type TinkerReply = { status: number; body?: unknown; headers?: Record<string, string> }
/** A heavy request that was accepted. `polls`: requests for its result so far. */
export type TinkerJob = { id: string; kind: string; model: string; seq: number | null; polls: number }

/** Deviations; the defaults are those of SkyRL 0.4.0 on JAX. */
export type TinkerBehaviour = {
  format?: 'protobuf' | 'json'
  reduction?: Reduction
  /** `grad_clip_norm` has an effect. */
  gradClip?: boolean
  withoutGradNorm?: boolean
  /** Rows with inputs of unequal lengths are refused instead of padded with zeros. */
  checksLengths?: boolean
  /** A repeated seq runs again. */
  notRepeatable?: boolean
  samplerPath?: 'typed' | 'plain'
  targetModules?: readonly string[] | null
  alpha?: number
  /** Further fields of its base model in `get_server_capabilities`. */
  modelEntry?: Body
  promptLogprobs?: 'full' | 'without_first' | 'none'
  losses?: readonly string[]
  key?: string
  slots?: number
  /** A new model does not get the gradients of an unloaded one. */
  clearsGradients?: boolean
  adapters?: 'archive' | 'external_weights'
  /** A request waits until all earlier seqs of its model ran, as on the hosted service. */
  inOrder?: boolean
  /** Failed requests are answered as by the hosted service. */
  hostedFailures?: boolean
  config?: Body
  /** A pass with more rows is refused. */
  rowsMax?: number
  /** Instead of the server's answer to a request, or null. */
  admit?: (seen: TinkerSeen) => Promise<TinkerReply | null> | TinkerReply | null
  /** The connection breaks after the request was carried out, before it is answered. */
  cut?: (seen: TinkerSeen) => boolean
  /** Instead of the result, or null. */
  retrieve?: (job: TinkerJob) => TinkerReply | null
  /** Awaited before a request runs. */
  before?: (job: TinkerJob) => Promise<void> | void
  /** The message with which a request fails, or null. */
  fail?: (job: TinkerJob) => string | null
  /** The log-probs of a pass as they are sent. */
  logprobs?: (rows: number[][]) => number[][]
  /** The archive as it is sent. */
  archive?: (bytes: Buffer) => Buffer
}

type Loaded = { lora: BigramLora; ran: Set<number>; slot: number }
type Model = {
  id: string
  base: string
  rank: number
  seed: number
  session: string
  requests: number
  loaded: Loaded | null
}
type Result = { bytes?: Buffer; json?: Body; error?: string }
type Job = TinkerJob & {
  fingerprint: string
  run: () => Result
  result: Result | null
  done: PromiseWithResolvers<void>
}
type Checkpoint = {
  kind: 'weights' | 'sampler_weights' | 'external_weights'
  state: State
  rank: number
  base: string
  at: string
}

const LOSSES = ['cross_entropy', 'importance_sampling', 'ppo', 'cispo']
/** In SkyRL's schema, refused by its JAX backend when they run. */
const LISTED_LOSSES = ['gspo', 'dppo', 'ppo_critic']
const PROTOBUF = 'application/x-protobuf'
const HOLD_MS = 20_000

class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export class ScriptedTinker {
  behaviour: TinkerBehaviour
  readonly seen: TinkerSeen[] = []
  /** Passes and steps in the order in which they ran, as `KIND MODEL SEQ`. */
  readonly ran: string[] = []
  readonly checkpoints = new Map<string, Checkpoint>()
  readonly models = new Map<string, Model>()
  readonly sessions = new Set<string>()
  /** The last unloaded LoRA of each slot. */
  private readonly left = new Map<number, BigramLora>()
  heartbeats = 0
  readonly base: Base
  readonly baseName: string
  private readonly jobs = new Map<string, Job>()
  private readonly queues = new Map<string, Promise<void>>()
  private count = 0
  private server: Server | null = null
  private port = 0

  constructor(behaviour: TinkerBehaviour = {}, { name = 'base', vocabulary = 64 } = {}) {
    this.behaviour = behaviour
    this.baseName = name
    this.base = new Base(name, vocabulary)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** A second start uses the same port. Requests that had not run fail, as SkyRL's do after a restart. */
  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      void this.serve(request, response)
    })
    this.server.listen(this.port, '127.0.0.1')
    await once(this.server, 'listening')
    this.port = (this.server.address() as AddressInfo).port
    return this
  }

  /** Breaks all connections; loaded models and gradients are lost. */
  async kill(): Promise<void> {
    for (const model of this.models.values()) model.loaded = null
    this.left.clear()
    if (!this.server) return
    const closed = once(this.server, 'close')
    this.server.close()
    this.server.closeAllConnections()
    this.server = null
    await closed
  }

  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  /** The database is gone: futures, sessions, models. Checkpoints stay unless `checkpoints.clear()`. */
  forgetAll(): void {
    this.jobs.clear()
    this.models.clear()
    this.sessions.clear()
  }

  /** Requests to a path that have been received. */
  asked(path: string): TinkerSeen[] {
    return this.seen.filter((one) => one.path === `/api/v1/${path}`)
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const bytes = Buffer.concat(chunks)
      const isJson = (request.headers['content-type'] ?? '').includes('json')
      const { method = '', url = '', headers } = request
      const body = isJson && bytes.length > 0 ? (JSON.parse(bytes.toString('utf8')) as Body) : {}
      const seen = { method, path: url, body, bytes, headers }
      this.seen.push(seen)
      const server = this.server
      const reply = (await this.behaviour.admit?.(seen)) ?? (await this.answer(seen))
      if (server !== this.server || this.behaviour.cut?.(seen)) return void response.destroy()
      this.send(response, reply)
    } catch (error) {
      if (error instanceof Refusal) this.send(response, { status: error.status, body: { detail: error.message } })
      else if (request.destroyed) response.destroy()
      else throw error
    }
  }

  private send(response: ServerResponse, { status, body, headers = {} }: TinkerReply): void {
    const isBytes = body instanceof Uint8Array
    const type = isBytes ? {} : { 'content-type': 'application/json' }
    response.writeHead(status, { ...type, ...headers })
    response.end(isBytes ? body : typeof body === 'string' ? body : JSON.stringify(body ?? null))
  }

  private async answer(seen: TinkerSeen): Promise<TinkerReply> {
    const { method, path, body, headers } = seen
    const { key } = this.behaviour
    if (key !== undefined && headers['x-api-key'] !== key) throw new Refusal(401, 'Invalid API key')
    const call = `${method} ${path}`
    if (call === 'GET /') return ok({ name: 'Tinker API Mock', version: '0.0.1' })
    if (call === 'GET /api/v1/healthz') return ok({ status: 'ok' })
    if (call === 'GET /api/v1/get_server_capabilities')
      return ok({ supported_models: [{ model_name: this.baseName, ...this.behaviour.modelEntry }] })
    if (method === 'GET' || method === 'DELETE') return this.checkpointCall(method, path)
    switch (path.replace('/api/v1/', '')) {
      case 'client/config':
        return ok(this.behaviour.config ?? { pjwt_auth_enabled: false })
      case 'create_session': {
        const session = `session_${++this.count}`
        this.sessions.add(session)
        return ok({ type: 'create_session', session_id: session })
      }
      case 'session_heartbeat':
        if (!this.sessions.has(String(body['session_id']))) throw new Refusal(404, 'Session not found')
        this.heartbeats += 1
        return ok({ type: 'session_heartbeat' })
      case 'create_model':
        return this.createModel(body)
      case 'get_info': {
        const { id, base, rank } = this.known(body['model_id'])
        return ok({ model_id: id, status: 'created', model_data: { base_model: base, lora_config: { rank } } })
      }
      case 'forward_backward':
      case 'forward':
        return this.pass(seen)
      case 'optim_step':
        return this.optimStep(body)
      case 'save_weights':
      case 'save_weights_for_sampler':
      case 'save_weights_external':
        return this.save(path.replace('/api/v1/', ''), body)
      case 'load_weights':
        return this.load(body)
      case 'unload_model': {
        const model = this.known(body['model_id'])
        return this.accept('unload_model', model.id, null, body, () => {
          if (model.loaded) this.left.set(model.loaded.slot, model.loaded.lora)
          model.loaded = null
          return { json: { model_id: model.id, type: 'unload_model' } }
        })
      }
      case 'create_sampling_session':
        return ok({ type: 'create_sampling_session', sampling_session_id: `sampling_${++this.count}` })
      case 'asample':
        return this.sample(body)
      case 'retrieve_future':
        return this.retrieve(String(body['request_id']))
      default:
        throw new Refusal(404, 'Not Found')
    }
  }

  private known(id: unknown): Model {
    const model = this.models.get(String(id))
    if (!model) throw new Refusal(404, 'Model not found')
    return model
  }

  /** Its LoRA, while a request runs. */
  private loaded(id: string): Loaded {
    const loaded = this.models.get(id)?.loaded
    if (!loaded) throw new Error(`Model ${id} not loaded (likely stale request from previous server)`)
    return loaded
  }

  /** Registers a request and lets it run after those of the same model. */
  private accept(kind: string, model: string, seq: number | null, body: unknown, run: () => Result): TinkerReply {
    const fingerprint = `${kind} ${JSON.stringify(body)}`
    const same = [...this.jobs.values()].find((job) => job.model === model && job.seq !== null && job.seq === seq)
    if (same && !this.behaviour.notRepeatable) {
      if (same.fingerprint !== fingerprint) throw new Refusal(409, 'Training request sequence number was reused')
      return ok({ future_id: same.id, status: 'pending', request_id: same.id })
    }
    const id = String(++this.count)
    const job: Job = { id, kind, model, seq, polls: 0, fingerprint, run, result: null, done: Promise.withResolvers() }
    this.jobs.set(id, job)
    this.queues.set(
      model,
      (this.queues.get(model) ?? Promise.resolve()).then(() => this.execute(job)),
    )
    return ok({ future_id: id, status: 'pending', request_id: id })
  }

  private async execute(job: Job): Promise<void> {
    await this.behaviour.before?.(job)
    while (
      this.behaviour.inOrder &&
      this.server &&
      job.seq !== null &&
      job.seq > 1 &&
      !this.models.get(job.model)?.loaded?.ran.has(job.seq - 1)
    )
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    const failure = this.behaviour.fail?.(job) ?? null
    try {
      if (failure !== null) throw new Error(failure)
      job.result = job.run()
      this.ran.push(`${job.kind} ${job.model} ${job.seq}`)
    } catch (error) {
      job.result = { error: (error as Error).message }
    }
    if (job.seq !== null) this.models.get(job.model)?.loaded?.ran.add(job.seq)
    job.done.resolve()
  }

  private async retrieve(id: string): Promise<TinkerReply> {
    const job = this.jobs.get(id)
    if (!job) throw new Refusal(404, 'Future not found')
    job.polls += 1
    const instead = this.behaviour.retrieve?.(job)
    if (instead) return instead
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, HOLD_MS).unref()
    })
    await Promise.race([job.done.promise, late])
    clearTimeout(timer)
    const { result } = job
    if (!result) throw new Refusal(408, 'Timeout waiting for result')
    if (result.error !== undefined) {
      if (this.behaviour.hostedFailures) return ok({ error: result.error, category: 'server' })
      throw new Refusal(400, result.error)
    }
    return result.bytes ? { status: 200, body: result.bytes, headers: { 'content-type': PROTOBUF } } : ok(result.json)
  }

  private createModel(body: Body): TinkerReply {
    const {
      session_id: session,
      base_model: base,
      lora_config: lora,
    } = body as {
      session_id: string
      base_model: string
      lora_config: { rank: number; seed?: number }
    }
    if (!this.sessions.has(session)) throw new Refusal(404, 'Session not found')
    const id = `model_${++this.count}`
    const model: Model = { id, base, rank: lora.rank, seed: lora.seed ?? 0, session, requests: 0, loaded: null }
    this.models.set(id, model)
    const accepted = this.accept('create_model', id, null, body, () => {
      const { slots = 32, alpha = 32 } = this.behaviour
      if (base !== this.baseName) throw new Error(`Base model ${base} is not served`)
      const used = new Set([...this.models.values()].map((one) => one.loaded?.slot))
      const slot = Array.from({ length: slots }, (_, at) => at).find((at) => !used.has(at))
      if (slot === undefined) throw new Error(`Maximum number of LoRA adapters (${slots}) reached`)
      const fresh = new BigramLora(this.base, lora.rank, alpha, model.seed)
      const left = this.left.get(slot)
      if (left && !this.behaviour.clearsGradients) fresh.inherit(left)
      this.left.delete(slot)
      model.loaded = { lora: fresh, ran: new Set(), slot }
      return { json: { model_id: id, base_model: base, lora_config: { rank: lora.rank } } }
    })
    return ok({ ...(accepted.body as Body), model_id: id, base_model: base, status: 'created' })
  }

  private readPass({ path, body, bytes, headers }: TinkerSeen): Pass {
    const { format = 'protobuf' } = this.behaviour
    const isProtobuf = headers['content-type'] === PROTOBUF
    if (format === 'protobuf') {
      if (!isProtobuf) throw new Refusal(415, `forward_backward requires a ${PROTOBUF} body (tinker SDK >= 0.25.0)`)
      if (path.endsWith('/forward')) throw new Refusal(404, 'Not Found')
      try {
        return readPass(bytes)
      } catch (error) {
        throw new Refusal(422, `Invalid proto forward_backward body: ${(error as Error).message}`)
      }
    }
    if (isProtobuf) throw new Refusal(422, 'Input should be a valid dictionary')
    const forwardOnly = path.endsWith('/forward')
    const input = body[forwardOnly ? 'forward_input' : 'forward_backward_input'] as {
      data: { model_input: { chunks: { tokens: number[] }[] }; loss_fn_inputs: Record<string, { data: number[] }> }[]
      loss_fn: string
    }
    return {
      model: String(body['model_id']),
      seq: Number(body['seq_id']),
      forwardOnly,
      loss: input.loss_fn,
      config: [],
      data: input.data.map(({ model_input, loss_fn_inputs }) => ({
        tokens: model_input.chunks.flatMap(({ tokens }) => tokens),
        inputs: Object.fromEntries(Object.entries(loss_fn_inputs).map(([name, { data }]) => [name, data])),
      })),
    }
  }

  private pass(seen: TinkerSeen): TinkerReply {
    const { losses = LOSSES, checksLengths, reduction = 'sequence_mean', format = 'protobuf' } = this.behaviour
    const pass = this.readPass(seen)
    const model = this.known(pass.model)
    if (pass.data.length > (this.behaviour.rowsMax ?? Infinity)) throw new Refusal(400, 'Too many rows in one request')
    if (!losses.includes(pass.loss) && !LISTED_LOSSES.includes(pass.loss))
      throw new Refusal(422, `loss_fn: Input should be ${losses.join(', ')}`)
    const rows = pass.data.map(({ tokens, inputs }) => {
      const { target_tokens: targets = [], weights = targets.map(() => 1), logprobs = [], advantages = [] } = inputs
      if (checksLengths && Object.values(inputs).some((values) => values.length !== tokens.length))
        throw new Refusal(422, 'loss_fn_inputs have unequal lengths')
      const slope = (logprob: number, at: number): number =>
        pass.loss === 'cross_entropy'
          ? -(weights[at] ?? 0)
          : -Math.exp(logprob - (logprobs[at] ?? 0)) * (advantages[at] ?? 0)
      return { tokens, targets, slope }
    })
    model.requests += 1
    return this.accept(pass.forwardOnly ? 'forward' : 'forward_backward', model.id, pass.seq, pass, () => {
      if (LISTED_LOSSES.includes(pass.loss))
        throw new Error(`Loss functions ['${pass.loss}'] are not supported by the JAX backend`)
      const { lora } = this.loaded(model.id)
      const found = pass.forwardOnly
        ? rows.map(({ tokens, targets }) => lora.logprobs(tokens, targets))
        : lora.backward(rows, reduction)
      const sent = this.behaviour.logprobs?.(found) ?? found
      if (format === 'protobuf') return { bytes: writeOutput(sent, {}) }
      const outputs = sent.map((data) => ({ logprobs: { data, dtype: 'float32', shape: [data.length] } }))
      return { json: { loss_fn_output_type: 'scalar', loss_fn_outputs: outputs, metrics: {} } }
    })
  }

  private optimStep(body: Body): TinkerReply {
    const { gradClip = false, withoutGradNorm, reduction = 'sequence_mean' } = this.behaviour
    const model = this.known(body['model_id'])
    const adam = body['adam_params'] as Record<string, number>
    model.requests += 1
    return this.accept('optim_step', model.id, Number(body['seq_id']), body, () => {
      const settings = {
        rate: adam['learning_rate'] ?? 1e-4,
        beta1: adam['beta1'] ?? 0.9,
        beta2: adam['beta2'] ?? 0.95,
        epsilon: adam['eps'] ?? 1e-12,
        decay: adam['weight_decay'] ?? 0,
        clip: gradClip ? (adam['grad_clip_norm'] ?? 0) : 0,
      }
      const norm = this.loaded(model.id).lora.step(settings, reduction)
      return {
        json: {
          metrics: withoutGradNorm ? {} : { 'skyrl.ai/grad_norm': norm, 'skyrl.ai/learning_rate': settings.rate },
        },
      }
    })
  }

  private save(call: string, body: Body): TinkerReply {
    const { samplerPath = 'plain', adapters = 'archive' } = this.behaviour
    const kind =
      call === 'save_weights' ? 'weights' : call === 'save_weights_external' ? 'external_weights' : 'sampler_weights'
    if (kind === 'external_weights' && adapters === 'archive') throw new Refusal(404, 'Not Found')
    const model = this.known(body['model_id'])
    const name = String(body['path'])
    const full = `tinker://${model.id}/${kind}/${name}`
    // SkyRL does not look at the seq of a save.
    const taken =
      this.checkpoints.has(full) ||
      [...this.jobs.values()].some((job) => job.fingerprint === `save ${JSON.stringify(full)}` && !job.result)
    if (taken) throw new Refusal(409, `Checkpoint '${name}' already exists for model '${model.id}'`)
    model.requests += 1
    const accepted = this.accept('save', model.id, null, full, () => {
      const { lora } = this.loaded(model.id)
      const at = new Date().toISOString()
      this.checkpoints.set(full, { kind, state: lora.state, rank: lora.rank, base: model.base, at })
      const path = kind === 'sampler_weights' && samplerPath === 'plain' ? `tinker://${model.id}/${name}` : full
      return { json: { path, type: call } }
    })
    const seq = body['seq_id']
    if (typeof seq === 'number') void this.queues.get(model.id)?.then(() => model.loaded?.ran.add(seq))
    return accepted
  }

  private load(body: Body): TinkerReply {
    const model = this.known(body['model_id'])
    if (model.requests > 0) throw new Refusal(400, `LoadWeights is not permitted with seq_id ${String(body['seq_id'])}`)
    const path = String(body['path'])
    const checkpoint = this.checkpoints.get(path)
    if (!/^tinker:\/\/[^/]+\/weights\/[^/]+$/.test(path))
      throw new Refusal(400, 'request.path must be in format tinker://source_model_id/weights/checkpoint_id')
    if (!checkpoint)
      throw new Refusal(404, `Checkpoint not found: ${path.slice('tinker://'.length).replace('/weights', '')}`)
    model.requests += 1
    return this.accept('load_weights', model.id, Number(body['seq_id']), body, () => {
      this.loaded(model.id).lora.restore(checkpoint.state, body['optimizer'] !== false)
      return { json: { path, type: 'load_weights' } }
    })
  }

  private checkpointCall(method: string, path: string): TinkerReply {
    const [, run = '', rest = ''] = /^\/api\/v1\/training_runs\/([^/]+)\/checkpoints\/?(.*)$/.exec(path) ?? []
    if (run === '') throw new Refusal(404, 'Not Found')
    const { adapters = 'archive' } = this.behaviour
    if (rest === '') {
      const mine = [...this.checkpoints].filter(([address]) => address.startsWith(`tinker://${run}/`))
      return ok({
        checkpoints: mine.map(([address, { kind, at }]) => ({
          checkpoint_id: address.split('/').at(-1),
          checkpoint_type: kind === 'weights' ? 'training' : kind === 'external_weights' ? 'external' : 'sampler',
          time: at,
          tinker_path: address,
        })),
      })
    }
    if (method === 'DELETE') {
      if (!this.checkpoints.delete(`tinker://${run}/${rest}`))
        throw new Refusal(404, `Checkpoint not found: ${run}/${rest}`)
      return { status: 204, body: '' }
    }
    const [kindOrName = '', second] = rest.split('/')
    if (adapters === 'external_weights') {
      const [, name = '', what] = rest.split('/')
      const files = this.files(run, 'external_weights', name)
      if (what === 'external_weights_urls') {
        const url = (file: string): string =>
          `${this.url}/api/v1/training_runs/${run}/checkpoints/external_weights/${name}/${file}`
        return ok({
          urls: Object.fromEntries(Object.keys(files).map((file) => [file, url(file)])),
          expires: '2030-01-01T00:00:00Z',
        })
      }
      const file = files[what ?? '']
      if (!file) throw new Refusal(404, 'Not Found')
      return { status: 200, body: file }
    }
    if (second === 'archive') {
      this.files(run, 'sampler_weights', kindOrName)
      const location = `${this.url}/api/v1/training_runs/${run}/checkpoints/${kindOrName}/download`
      return { status: 302, body: '', headers: { location } }
    }
    if (second === 'download') {
      const files = this.files(run, 'sampler_weights', kindOrName)
      const bytes = packAdapter(files['adapter_model.safetensors']!, JSON.parse(String(files['adapter_config.json'])))
      return {
        status: 200,
        body: this.behaviour.archive?.(bytes) ?? bytes,
        headers: { 'content-type': 'application/octet-stream' },
      }
    }
    throw new Refusal(404, 'Not Found')
  }

  /** The bigram's matrices as those of `down_proj`; the six other projections have matrices of zeros. */
  private files(run: string, kind: string, name: string): Record<string, Buffer> {
    const checkpoint = this.checkpoints.get(`tinker://${run}/${kind}/${name}`)
    if (!checkpoint)
      throw new Refusal(
        404,
        this.behaviour.adapters === 'external_weights' ? 'Not Found' : `Checkpoint not found: ${run}/${name}`,
      )
    const { state, rank, base } = checkpoint
    const tensors: Record<string, { shape: number[]; values: readonly number[] }> = {}
    for (const part of [
      'self_attn.q_proj',
      'self_attn.k_proj',
      'self_attn.v_proj',
      'self_attn.o_proj',
      'mlp.gate_proj',
      'mlp.up_proj',
      'mlp.down_proj',
    ]) {
      const zeros = part === 'mlp.down_proj' ? null : Array.from({ length: 8 * rank }, () => 0)
      const at = `base_model.model.model.layers.0.${part}`
      tensors[`${at}.lora_A.weight`] = { shape: [rank, 8], values: zeros ?? [...state.a] }
      tensors[`${at}.lora_B.weight`] = {
        shape: [zeros ? 8 : this.base.vocabulary, rank],
        values: zeros ?? [...state.b],
      }
    }
    const { targetModules = null, alpha = 32 } = this.behaviour
    const config = {
      peft_type: 'LORA',
      base_model_name_or_path: base,
      r: rank,
      lora_alpha: alpha,
      target_modules: targetModules,
      task_type: null,
    }
    return {
      'adapter_model.safetensors': writeSafetensors(tensors),
      'adapter_config.json': Buffer.from(JSON.stringify(config)),
    }
  }

  private sample(body: Body): TinkerReply {
    const { promptLogprobs = 'without_first', format = 'protobuf' } = this.behaviour
    if (body['prompt_logprobs'] === true && promptLogprobs === 'none')
      throw new Refusal(400, 'Prompt logprobs are not supported')
    const { chunks } = body['prompt'] as { chunks: { tokens: number[] }[] }
    const prompt = chunks.flatMap(({ tokens }) => tokens)
    return this.accept('sample', 'sampler', null, body, () => {
      const lora = new BigramLora(this.base, 1, 1, 0)
      const after = [...lora.after(prompt.at(-1) ?? 0)]
      const best = after.indexOf(Math.max(...after))
      const scores = lora.logprobs(prompt.slice(0, -1), prompt.slice(1))
      const sent = promptLogprobs === 'full' ? [Number.NaN, ...scores] : scores
      const asked = body['prompt_logprobs'] === true
      if (format === 'protobuf') return { bytes: writeSample([best], [after[best] ?? 0], asked ? sent : null) }
      const json = sent.map((value) => (Number.isNaN(value) ? null : value))
      return {
        json: {
          sequences: [{ stop_reason: 'length', tokens: [best], logprobs: [after[best]] }],
          prompt_logprobs: asked ? json : null,
        },
      }
    })
  }
}

const ok = (body: unknown): TinkerReply => ({ status: 200, body })
