/** Finds out how a server computes and what it checks, by training models of its own (core/probing.ts has the arithmetic). */
import { InstarError } from '@instar/events/errors'
import {
  clipFor,
  descent,
  FIRST_RATE,
  isClipped,
  LEFT_TOLERANCE,
  LONG,
  LOSSES,
  nextRate,
  PROBE_ROWS,
  RATES_MAX,
  RESUME_TOLERANCE,
  reductionOf,
  rise,
  sameLogprobs,
  SCENARIOS,
  scenarioRows,
  sharesPrefixes,
  SHORT,
  type Scenario,
} from '../core/probing.ts'
import { parsePath } from '../core/paths.ts'
import { lossRequests } from '../core/requests.ts'
import type { Capabilities, Prepared, Reduction, RequestKind, Results, TrainingServer } from '../port.ts'
import type { Futures } from './futures.ts'
import type { TinkerHttp } from './http.ts'
import { promptLogprobsOf } from './prompt-logprobs.ts'
import { requiresKey } from './requires-key.ts'

type Options = { base: string; rank: number }

class Probe {
  readonly #server: TrainingServer
  readonly #futures: Futures
  readonly #http: TinkerHttp
  readonly #options: Options
  readonly #signal: AbortSignal | undefined
  readonly #models: string[] = []
  #session = ''
  #model = ''
  #seq = 0
  #shares = true
  /** Norm of the last step's gradient, as the server reports it. */
  #gradNorm: number | null = null

  constructor(server: TrainingServer, futures: Futures, http: TinkerHttp, options: Options, signal?: AbortSignal) {
    this.#server = server
    this.#futures = futures
    this.#http = http
    this.#options = options
    this.#signal = signal
  }

  async run(): Promise<Capabilities> {
    const [server, http] = [this.#server, this.#http]
    const { product, version, models, contextLengths } = await server.hello(this.#signal)
    this.#session = await server.openSession(this.#signal)
    try {
      this.#model = await this.#create()
      const { rate, risen } = await this.#rate()
      const reduction = await this.#reduction(rate, risen)
      const clipped = await this.#rise('alone', rate, clipFor(rate, risen, reduction))
      const repeatable = await this.#repeatable()
      const name = 'probe'
      const sampler = await this.#send(server.prepareSaveForSampler(this.#model, this.#next(), name))
      const adapter = await server.archive(sampler.path, this.#options.base, this.#signal)
      const resumes = await this.#resumes(name)
      const checksLengths = await this.#checksLengths()
      const losses = await this.#losses()
      const promptLogprobs = await promptLogprobsOf(
        this.#futures,
        http,
        this.#session,
        this.#options.base,
        this.#signal,
      )
      await server.delete(sampler.path, this.#signal)
      return {
        product,
        version,
        wire: server.wire,
        models,
        contextLength: contextLengths.get(this.#options.base) ?? null,
        reduction,
        gradClip: isClipped(risen, clipped),
        gradNorm: this.#gradNorm !== null,
        losses,
        alpha: adapter.alpha,
        targets: adapter.targets,
        promptLogprobs,
        samplerPath: parsePath(sampler.path).kind === null ? 'plain' : 'typed',
        repeatable,
        checksLengths,
        resumes,
        keepsGradients: await this.#keepsGradients(rate),
        sharesPrefixes: this.#shares,
        requiresKey: await requiresKey(http, this.#signal),
      }
    } finally {
      // A server that fails here fails again where it matters.
      await Promise.allSettled(this.#models.map((model) => server.unload(model, this.#signal)))
      server.endSession(this.#session)
    }
  }

  async #create(): Promise<string> {
    const { base, rank } = this.#options
    const modelSeq = this.#models.length
    const { model } = await this.#server.createModel(this.#session, { base, rank, seed: 7, modelSeq }, this.#signal)
    this.#models.push(model)
    return model
  }

  #next(): number {
    this.#seq += 1
    return this.#seq
  }

  async #send<K extends RequestKind>(request: Prepared<K>): Promise<Results[K]> {
    const { result } = await this.#server.send(request, this.#signal)
    const rows = 'logprobs' in result ? result.logprobs : []
    if (!rows.every((row) => row.every(Number.isFinite)))
      throw new InstarError('trainer_mismatch', 'The training server’s log-probs of the probe are not finite numbers')
    return result
  }

  /** In the order of their seqs, which are counted: a server may take fewer rows a request than a pass has. */
  async #passes<K extends 'forward' | 'forward_backward'>(
    prepare: (seq: number) => readonly Prepared<K>[],
  ): Promise<Results[K][]> {
    const requests = prepare(this.#next())
    this.#seq += requests.length - 1
    return Promise.all(requests.map((request) => this.#send(request)))
  }

  async #score(): Promise<Float32Array[]> {
    const passes = await this.#passes((seq) => this.#server.prepareForward(this.#model, seq, PROBE_ROWS))
    const logprobs = passes.flatMap((pass) => pass.logprobs)
    this.#shares &&= sharesPrefixes(logprobs)
    return logprobs
  }

  /** One step on a scenario; nats by which SHORT's log-probs rose. */
  async #rise(scenario: Scenario, rate: number, gradClipNorm = 0): Promise<number> {
    const before = await this.#score()
    const rows = scenarioRows(scenario, before)
    const passed = this.#passes((seq) => this.#server.prepareForwardBackward(this.#model, seq, rows))
    const step = this.#server.prepareOptimStep(this.#model, this.#next(), descent(rate, gradClipNorm))
    const [{ gradNorm }] = await Promise.all([this.#send(step), passed])
    this.#gradNorm = Number.isFinite(gradNorm) ? gradNorm : null
    return rise(before, await this.#score())
  }

  /** A rate with which one step raises the log-probs by a measurable part of a nat. */
  async #rate(): Promise<{ rate: number; risen: number }> {
    let rate = FIRST_RATE
    for (let attempt = 0; attempt < RATES_MAX; attempt++) {
      const risen = await this.#rise('alone', rate)
      const next = nextRate(rate, risen)
      if (next === null) return { rate, risen }
      rate = next
    }
    throw new InstarError(
      'trainer_mismatch',
      `${this.#server.url}: ${RATES_MAX} steps along the gradient, with rates up to ${rate}, did not raise the log-probs of the row trained on`,
    )
  }

  /** Each scenario between two measurements of `alone`, whose mean it is held to: the weights move a little. */
  async #reduction(rate: number, risen: number): Promise<Reduction> {
    const rises = { alone: 1 } as Record<Scenario, number>
    const norms = { alone: 1 } as Record<Scenario, number>
    let alone = { risen, norm: this.#gradNorm }
    for (const scenario of (Object.keys(SCENARIOS) as Scenario[]).filter((one) => one !== 'alone')) {
      const found = { risen: await this.#rise(scenario, rate), norm: this.#gradNorm }
      const again = { risen: await this.#rise('alone', rate), norm: this.#gradNorm }
      rises[scenario] = found.risen / ((alone.risen + again.risen) / 2)
      norms[scenario] = (found.norm ?? 0) / (((alone.norm ?? 0) + (again.norm ?? 0)) / 2)
      alone = again
    }
    return reductionOf(rises, this.#gradNorm === null ? null : norms)
  }

  /** The same request again, then others under its seq. */
  async #repeatable(): Promise<boolean> {
    const seq = this.#next()
    const [request] = this.#server.prepareForward(this.#model, seq, PROBE_ROWS)
    const [other] = this.#server.prepareForward(this.#model, seq, [LONG])
    if (!request || !other) return false
    const first = await this.#server.send(request, this.#signal)
    const second = await this.#server.send(request, this.#signal)
    if (first.requestId !== second.requestId) return false
    return this.#isRefused(this.#send(other), 'trainer_seq_used')
  }

  /** Whether a call fails with the code; other failures are the caller's. */
  async #isRefused(call: Promise<unknown>, ...codes: string[]): Promise<boolean> {
    try {
      await call
      return false
    } catch (error) {
      if (!(error instanceof InstarError) || !codes.includes(error.code)) throw error
      // What was refused when it was handed in has not used its seq, and no later one may run before it.
      if (error.code === 'trainer_refused' && error.details['status'] !== undefined) this.#seq -= 1
      return true
    }
  }

  async #resumes(name: string): Promise<boolean> {
    const server = this.#server
    const before = await this.#score()
    const { path } = await this.#send(server.prepareSave(this.#model, this.#next(), name))
    const trained = this.#model
    const fresh = await this.#create()
    await this.#send(server.prepareLoad(fresh, 1, path, { optimizer: true }))
    const passes = server.prepareForward(fresh, 2, PROBE_ROWS).map((request) => this.#send(request))
    const after = (await Promise.all(passes)).flatMap((pass) => pass.logprobs)
    this.#model = trained
    await server.delete(path, this.#signal)
    return sameLogprobs(before, after, RESUME_TOLERANCE)
  }

  async #checksLengths(): Promise<boolean> {
    const inputs = { target_tokens: SHORT.targets, logprobs: SHORT.targets.map(() => -1), advantages: [0, 0] }
    return this.#isRefused(this.#pass('importance_sampling', inputs), 'trainer_refused', 'trainer_failed')
  }

  async #losses(): Promise<string[]> {
    const accepted: string[] = []
    const zeros = SHORT.targets.map(() => 0)
    for (const loss of LOSSES) {
      const inputs: Record<string, readonly number[]> =
        loss === 'cross_entropy' ? { weights: zeros } : { logprobs: SHORT.targets.map(() => -1), advantages: zeros }
      const call = this.#pass(loss, { target_tokens: SHORT.targets, ...inputs })
      if (!(await this.#isRefused(call, 'trainer_refused', 'trainer_failed'))) accepted.push(loss)
    }
    return accepted
  }

  /** A pass without checks of its own. */
  async #pass(
    loss: string,
    inputs: { target_tokens: readonly number[]; [name: string]: readonly number[] },
  ): Promise<void> {
    const data = [{ tokens: SHORT.tokens, inputs }]
    const [request] = lossRequests(this.#server.wire, 'forward_backward', this.#model, this.#next(), loss, data)
    if (request) await this.#send(request)
  }

  /** Unloads the model between a pass and its step; whether a step of the next model moves it. */
  async #keepsGradients(rate: number): Promise<boolean> {
    const server = this.#server
    const rows = scenarioRows('alone', await this.#score())
    await this.#passes((seq) => server.prepareForwardBackward(this.#model, seq, rows))
    await server.unload(this.#model, this.#signal)
    this.#model = await this.#create()
    this.#seq = 0
    const before = await this.#score()
    const step = this.#send(server.prepareOptimStep(this.#model, this.#next(), descent(rate)))
    if (await this.#isRefused(step, 'trainer_refused', 'trainer_failed')) return false
    const { gradNorm } = await step
    // Log-probs that the server rounds to 16 bits may hide the step.
    if (gradNorm !== null && Number.isFinite(gradNorm)) return gradNorm > 0
    return !sameLogprobs(before, await this.#score(), LEFT_TOLERANCE)
  }
}

export const probeServer = (
  server: TrainingServer,
  futures: Futures,
  http: TinkerHttp,
  options: Options,
  signal?: AbortSignal,
): Promise<Capabilities> => new Probe(server, futures, http, options, signal).run()
