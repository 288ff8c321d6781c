/**
 * A training server whose arithmetic is the embedded engine's on the example model: `importance_sampling`, Adam, and a
 * reduction of its choice. What real servers do with seqs, restarts and checkpoints it does too.
 */
import { createHash } from 'node:crypto'
import { InstarError } from '@instar/events'
import { adamStep, initialAdam, readAdam, writeAdam } from '@instar/policy/adam'
import { writeAdapter } from '@instar/policy/checkpoints/peft'
import { completionLogprobs, ownLogprobs, padded } from '@instar/policy/forward'
import { initialLora, loraFrom, loraTensors } from '@instar/policy/lora'
import type { Runtime } from '@instar/policy/runtime/runtime'
import { compileTraining, type Training } from '@instar/policy/training'
import type { WeightTensor } from '@instar/policy/weights'
import { forwardBackwardRequests, forwardRequests, loadRequest, optimStepRequest, saveRequest } from '@instar/tinker'
import type {
  AdamParams,
  Answer,
  Capabilities,
  Prepared,
  Reduction,
  RequestKind,
  Results,
  ScoreRow,
  TrainingServer,
  TrainRow,
} from '@instar/tinker/port'

/** The JSON of requests, by the names of the API. */
type Body = {
  forward_input?: Input
  forward_backward_input?: Input
  adam_params: { learning_rate: number; beta1: number; beta2: number; eps: number; grad_clip_norm: number }
  path: string
}
type Data = { data: number[] }
type Input = {
  data: {
    model_input: { chunks: { tokens: number[] }[] }
    loss_fn_inputs: { target_tokens: Data; logprobs?: Data; advantages?: Data }
  }[]
}
const rowsIn = ({ forward_input: forward, forward_backward_input: backward }: Body): TrainRow[] =>
  ((forward ?? backward)?.data ?? []).map(({ model_input: input, loss_fn_inputs: inputs }) => ({
    tokens: input.chunks[0]?.tokens ?? [],
    targets: inputs.target_tokens.data,
    logprobs: inputs.logprobs?.data ?? [],
    advantages: inputs.advantages?.data ?? [],
  }))

type Weights = Map<string, WeightTensor>
type Adam = ReturnType<typeof initialAdam>
type TrainedModel = {
  session: string
  rank: number
  tensors: Weights
  adam: Adam
  gradients: Map<string, Float32Array>
  rows: number
  tokens: number
  done: Map<number, { sha256: string; answer: Promise<Answer<RequestKind>> }>
}
type Checkpoint = { rank: number; tensors: Weights; adam: Uint8Array }

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value))
const fault = (code: `trainer_${'model_lost' | 'state_lost' | 'seq_used' | 'refused'}`, what: string): InstarError =>
  new InstarError(code, what)
const copied = (tensors: Weights): Weights =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]))
const NONE = { places: [], reference: { ids: null, logp: new Float32Array() }, weight_R: [] }

/** `keepsGradients`, `sharesPrefixes`: as in `Capabilities`. */
export type ServerSettings = {
  reduction: Reduction
  alpha: number
  rowsMax: number
  bytesMax: number
  keepsGradients: boolean
  sharesPrefixes: boolean
  contextLength: number | null
}
/** Gradients since the last step. */
type Pending = Pick<TrainedModel, 'gradients' | 'rows' | 'tokens'>

export class EmbeddedTrainingServer implements TrainingServer {
  readonly url = 'http://trainer.test'
  readonly wire: TrainingServer['wire']
  private readonly runtime: Runtime
  private readonly settings: ServerSettings
  private readonly sessions = new Set<string>()
  readonly models = new Map<string, TrainedModel>()
  readonly saved = new Map<string, Checkpoint>()
  private readonly programs = new Map<number, Promise<Training>>()
  private count = 0
  /** Goes into the next model. */
  left: Pending | null = null
  /** Requests that were carried out, in their order; a repeated one is not carried out again. */
  readonly ran: { kind: RequestKind; model: string; seq: number }[] = []
  /** Called before a request is carried out and after; may throw. */
  before: (kind: string) => Promise<void> | void = () => undefined
  after: (kind: string) => Promise<void> | void = () => undefined

  constructor(runtime: Runtime, settings: Partial<ServerSettings> = {}) {
    this.runtime = runtime
    const limits = { rowsMax: 1024, bytesMax: 5_000_000, contextLength: null }
    const defaults = { alpha: 8, ...limits, keepsGradients: false, sharesPrefixes: false }
    this.settings = { reduction: 'sum', ...defaults, ...settings }
    this.wire = {
      format: 'json',
      rowsMax: this.settings.rowsMax,
      bytesMax: this.settings.bytesMax,
      adapters: 'archive',
    }
  }

  /** Sessions and models are gone, checkpoints are not. */
  restart(): void {
    this.sessions.clear()
    this.models.clear()
  }

  async hello() {
    return { product: 'embedded', version: '1', models: ['example'], contextLengths: new Map<string, number>() }
  }
  async probe(): Promise<Capabilities> {
    return {
      product: 'embedded',
      version: '1',
      wire: this.wire,
      models: ['example'],
      contextLength: this.settings.contextLength,
      reduction: this.settings.reduction,
      gradClip: true,
      gradNorm: true,
      losses: ['importance_sampling'],
      alpha: this.settings.alpha,
      targets: [],
      promptLogprobs: 'none',
      samplerPath: 'typed',
      repeatable: true,
      checksLengths: true,
      resumes: true,
      keepsGradients: this.settings.keepsGradients,
      sharesPrefixes: this.settings.sharesPrefixes,
      requiresKey: false,
    }
  }
  async openSession(): Promise<string> {
    await this.before('open_session')
    const id = `session-${++this.count}`
    this.sessions.add(id)
    return id
  }
  async resumeSession(session: string): Promise<void> {
    if (!this.sessions.has(session)) throw fault('trainer_model_lost', `there is no session ${session}`)
  }
  endSession(session: string): void {
    this.sessions.delete(session)
  }

  async createModel(session: string, { rank, seed }: { rank: number; seed: number }) {
    await this.before('create_model')
    if (!this.sessions.has(session)) throw fault('trainer_model_lost', `there is no session ${session}`)
    const tensors = copied(
      loraTensors(this.runtime.config, initialLora(this.runtime.config, rank, this.settings.alpha, seed)) as Weights,
    )
    const model = `model-${++this.count}`
    this.models.set(model, {
      session,
      rank,
      tensors,
      adam: initialAdam(tensors),
      ...(this.left ?? { gradients: new Map(), rows: 0, tokens: 0 }),
      done: new Map(),
    })
    this.left = null
    return { model, requestId: `r-${this.count}` }
  }
  async info(model: string) {
    const found = this.models.get(model)
    return found ? { base: 'example', rank: found.rank } : null
  }
  async unload(model: string): Promise<void> {
    const found = this.models.get(model)
    if (found && this.settings.keepsGradients) {
      const { gradients, rows, tokens } = found
      this.left = { gradients, rows, tokens }
    }
    this.models.delete(model)
  }

  prepareForward(model: string, seq: number, rows: readonly ScoreRow[]) {
    return forwardRequests(this.wire, model, seq, rows)
  }
  prepareForwardBackward(model: string, seq: number, rows: readonly TrainRow[]) {
    return forwardBackwardRequests(this.wire, model, seq, rows)
  }
  prepareOptimStep(model: string, seq: number, params: AdamParams) {
    return optimStepRequest(model, seq, params)
  }
  prepareLoad(model: string, seq: number, path: string, options: { optimizer: boolean }) {
    return loadRequest(model, seq, path, options)
  }
  prepareSave(model: string, seq: number, name: string) {
    return saveRequest(this.wire, 'save_weights', model, seq, name, null)
  }
  prepareSaveForSampler(model: string, seq: number, name: string) {
    return saveRequest(this.wire, 'save_weights_for_sampler', model, seq, name, null)
  }

  async send<K extends RequestKind>(request: Prepared<K>): Promise<Answer<K>> {
    const { model, seq, kind } = request
    const found = this.models.get(model)
    if (!found) throw fault('trainer_model_lost', `the model ${model} is not loaded`)
    const known = found.done.get(seq)
    if (known && known.sha256 !== request.sha256) throw fault('trainer_seq_used', `seq ${seq} of ${model} was used`)
    if (known) return known.answer as Promise<Answer<K>>
    if (seq !== 1 && !found.done.has(seq - 1))
      throw fault('trainer_refused', `seq ${seq} of ${model} came before ${seq - 1}`)
    const earlier = found.done.get(seq - 1)?.answer ?? Promise.resolve()
    const answer = earlier.then(async (): Promise<Answer<RequestKind>> => {
      await this.before(kind)
      const body = JSON.parse(new TextDecoder().decode(request.bytes)) as Body
      const result = await this.run(kind, model, found, body)
      this.ran.push({ kind, model, seq })
      await this.after(kind)
      return { requestId: `r-${model}-${seq}`, responseSha256: sha256(json(result)), result }
    })
    found.done.set(seq, { sha256: request.sha256, answer })
    // As if the request had not arrived.
    answer.catch(() => found.done.delete(seq))
    return answer as Promise<Answer<K>>
  }

  private async run(kind: RequestKind, name: string, model: TrainedModel, body: Body): Promise<Results[RequestKind]> {
    switch (kind) {
      case 'forward':
        return { logprobs: await this.logprobs(model, rowsIn(body)), metrics: {} }
      case 'forward_backward':
        return { logprobs: await this.accumulate(model, rowsIn(body)), metrics: {} }
      case 'optim_step':
        return this.optimStep(model, body.adam_params)
      case 'load_weights': {
        const state = this.saved.get(body.path)
        if (!state) throw fault('trainer_state_lost', `there is no checkpoint ${body.path}`)
        model.tensors = copied(state.tensors)
        model.adam = readAdam(state.adam, model.tensors)
        return { path: body.path }
      }
      case 'save_weights':
      case 'save_weights_for_sampler': {
        const folder = kind === 'save_weights' ? 'weights' : 'sampler_weights'
        const path = `tinker://${name}/${folder}/${body.path}`
        this.saved.set(path, {
          rank: model.rank,
          tensors: copied(model.tensors),
          adam: writeAdam(model.adam, model.tensors),
        })
        return { path }
      }
    }
  }

  /** As a sequence whose prompt is the first token: every target is scored. */
  private sequences(rows: readonly ScoreRow[]) {
    return rows.map(({ tokens, targets }) => ({ prompt: tokens.slice(0, 1), completion: targets }))
  }

  private async logprobs(model: TrainedModel, rows: readonly ScoreRow[]): Promise<Float32Array[]> {
    this.runtime.setAdapterSlot(2, loraFrom(this.runtime.config, model.rank, this.settings.alpha, model.tensors))
    const sequences = this.sequences(rows).map((row) => ({ ...row, temperature: 1, slot: 2 }))
    const all = await completionLogprobs(this.runtime, sequences)
    return all.map((one, at) => ownLogprobs(one, rows[at]?.targets ?? []))
  }

  private async accumulate(model: TrainedModel, rows: readonly TrainRow[]): Promise<Float32Array[]> {
    const { reduction, alpha } = this.settings
    const { config, constants, backend } = this.runtime
    const open = { rank: model.rank, alpha, clipLow: 1e6, clipHigh: 1e6, topK: 0 }
    const program = this.programs.get(model.rank) ?? compileTraining(backend, config, constants, open)
    this.programs.set(model.rank, program)
    const { ids, B, T, places } = padded(this.sequences(rows))
    const targets = rows.flatMap((row) => row.targets)
    const { gradients, logp } = await (
      await program
    ).run(model.tensors, {
      B,
      T,
      ids,
      rows: places,
      targets,
      inverseTemperature: targets.map(() => 1),
      old: rows.flatMap(({ logprobs }) => logprobs),
      advantage: rows.flatMap(({ advantages }) => advantages),
      weight: rows.flatMap((row) =>
        row.targets.map(() => (reduction === 'sequence_mean' ? 1 / row.targets.length : 1)),
      ),
      opd: NONE,
      kl: NONE,
    })
    for (const [name, part] of gradients) {
      const sum = model.gradients.get(name) ?? new Float32Array(part.length)
      for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] as number) + (part[at] as number)
      model.gradients.set(name, sum)
    }
    model.rows += rows.length
    model.tokens += targets.length
    let start = 0
    return rows.map((row) => logp.slice(start, (start += row.targets.length)))
  }

  private optimStep(model: TrainedModel, params: Body['adam_params']): Results['optim_step'] {
    // A step without a pass moves nothing here, whatever the moments are.
    if (model.gradients.size === 0) return { gradNorm: 0, metrics: {} }
    const { reduction } = this.settings
    const divisor = reduction === 'sum' ? 1 : reduction === 'sequence_mean' ? model.rows : model.tokens
    let squares = 0
    for (const own of model.gradients.values()) for (const value of own) squares += (value / divisor) ** 2
    const norm = Math.sqrt(squares)
    const clip = params.grad_clip_norm > 0 && norm > params.grad_clip_norm ? params.grad_clip_norm / norm : 1
    const { learning_rate: learningRate, beta1, beta2, eps } = params
    adamStep(model.tensors, model.gradients, clip / divisor, model.adam, {
      learningRate,
      beta1,
      beta2,
      adamEpsilon: eps,
    })
    model.gradients = new Map()
    model.rows = 0
    model.tokens = 0
    return { gradNorm: norm, metrics: {} }
  }

  async checkpoints(model: string) {
    return [...this.saved.keys()]
      .filter((path) => path.startsWith(`tinker://${model}/`))
      .map((path) => ({
        path,
        kind: path.includes('/sampler_weights/') ? ('sampler_weights' as const) : ('weights' as const),
      }))
  }
  async archive(path: string, base: string) {
    await this.before('archive')
    const state = this.saved.get(path)
    if (!state) throw fault('trainer_state_lost', `there is no adapter ${path}`)
    const { alpha } = this.settings
    const lora = loraFrom(this.runtime.config, state.rank, alpha, state.tensors)
    const { weights } = writeAdapter(lora, base)
    return {
      weights,
      config: {},
      rank: state.rank,
      alpha,
      targets: [],
      tensors: state.tensors.size,
      archiveSha256: sha256(weights),
      tensorsSha256: sha256(weights),
      configSha256: sha256(json({})),
    }
  }
  async delete(path: string): Promise<void> {
    this.saved.delete(path)
  }
  /** Sessions outlive the client for a while. */
  async close(): Promise<void> {
    return Promise.resolve()
  }
}
