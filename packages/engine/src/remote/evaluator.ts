/**
 * The `Evaluator` over the servers that serve: a candidate is loaded beside the served versions and removed after its
 * measurement. KL and entropy are estimates from the log-probs that the servers report (kl-estimate.ts).
 */
import { InstarError } from '@instar/events'
import type {
  Adapter,
  AdapterSha,
  EvaluateRequest,
  Evaluation,
  Evaluator,
  FinishReason,
  GeneratedToken,
  Model,
  ScoreRequest,
} from '../port.ts'
import { repetition } from '../repetition.ts'
import type { RemoteEngine } from './engine.ts'
import type { GateAdapters } from './gate-adapters.ts'
import { entropyAt, klAt, meanOverTokens, type SampledPosition } from './kl-estimate.ts'
import { allWithin, type Limit } from './limit.ts'
import type { Replica } from './replica.ts'

/** The likeliest tokens of a position whose log-probs are compared. vLLM reports at most 20 unless it is told otherwise. */
const TOP = 16
/** Attempts for an answer whose server fails after its first token. */
const ANSWER_TRIES = 3

/** Ends when `close` is called; requests then reject with `aborted`. */
export type OpenEvaluator = Evaluator & { close(): Promise<void> }

type Answer = { ids: number[]; text: string; reason: FinishReason; tokens: readonly GeneratedToken[] }

export class RemoteEvaluator implements OpenEvaluator {
  readonly temperature?: number
  private readonly engine: RemoteEngine
  private readonly model: Model
  private readonly adapters: GateAdapters
  /** Log-probs of given tokens come from a request for each position; else from one for the whole completion. */
  private readonly byPosition: boolean
  private readonly limit: Limit
  private readonly logLine: (line: string) => void
  private readonly closed = new AbortController()
  private readonly candidates = new Set<string>()

  constructor(parts: {
    engine: RemoteEngine
    model: Model
    adapters: GateAdapters
    byPosition: boolean
    anyTemperature: boolean
    limit: Limit
    logLine: ((line: string) => void) | undefined
  }) {
    this.engine = parts.engine
    this.model = parts.model
    this.adapters = parts.adapters
    this.byPosition = parts.byPosition
    this.limit = parts.limit
    this.logLine = parts.logLine ?? (() => undefined)
    if (!parts.anyTemperature) this.temperature = 1
  }

  /** A candidate that a crash left at a server is removed first. */
  async load(adapter: Adapter, as: 'candidate' | 'served' = 'candidate'): Promise<void> {
    const { sha256 } = adapter
    if (as === 'served' && !this.candidates.has(sha256)) this.adapters.setServed(sha256)
    if (as === 'candidate' && !this.adapters.isServed(sha256)) {
      if (this.candidates.size === 0) await this.removeLeftovers()
      this.candidates.add(sha256)
    }
    try {
      await this.engine.load(adapter)
    } catch (error) {
      this.candidates.delete(sha256)
      throw error
    }
  }

  async unload(sha256: string): Promise<void> {
    if (!this.candidates.delete(sha256)) {
      this.adapters.unsetServed(sha256)
      return this.engine.release(sha256)
    }
    await this.engine.unload(sha256)
    await this.adapters.removeCandidate(sha256)
  }

  /** A server that does not answer, or does not list its adapters, keeps them until the next measurement. */
  async removeLeftovers(): Promise<void> {
    try {
      const removed = await this.engine.fleet.onEach(null, (replica) =>
        replica.removeLeftovers((name) => this.adapters.isCandidate(name)),
      )
      const count = removed.flat().length
      if (count > 0) this.logLine(`${count} adapter${count === 1 ? '' : 's'} of an earlier measurement removed`)
    } catch (error) {
      this.logLine(`adapters of earlier measurements were not removed: ${(error as Error).message}`)
    }
  }

  async evaluate(request: EvaluateRequest): Promise<Evaluation> {
    const { prompts, adapter, references, sampling } = request
    if (sampling.temperature > 0 && references.length > 0) this.requireTemperature(sampling.temperature)
    const answers = await this.all(
      prompts.map((_, index) => (signal: AbortSignal) => this.answer(request, index, signal)),
    )
    const positions = answers.map(({ tokens }) =>
      tokens.map((token): SampledPosition => ({ top: this.byPosition ? token.top : [], sampled: token })),
    )
    const kl: { mean: number; error: number }[] = []
    for (const reference of references)
      kl.push(
        reference === adapter
          ? { mean: 0, error: 0 }
          : await this.klTo(reference, { prompts, positions, temperature: sampling.temperature || 1 }),
      )
    const entropies = answers.map(({ tokens }) => tokens.map((token) => entropyAt({ top: token.top, sampled: token })))
    return {
      completions: answers.map(({ ids, text, reason }) => ({ ids, text, reason })),
      kl: kl.map(({ mean }) => mean),
      entropy: meanOverTokens(entropies).mean,
      length:
        answers.length === 0 ? 0 : answers.reduce((sum, { ids }) => sum + ids.length, 0) / Math.max(1, answers.length),
      repetition: repetition(answers.map(({ ids }) => ids)),
      estimate: { top: this.byPosition ? TOP : 0, errors: kl.map(({ error }) => error) },
    }
  }

  score(request: ScoreRequest): Promise<Float32Array> {
    this.requireTemperature(request.temperature)
    return this.scored(request, (one, signal) =>
      this.engine.fleet.attempt({ ...request, session: sessionOf(request.prompt) }, one, signal),
    )
  }

  async scoreOnEach(request: ScoreRequest): Promise<{ server: string; logprobs: Float32Array }[]> {
    this.requireTemperature(request.temperature)
    const replicas = await this.engine.fleet.onEach(request.adapter, (replica) => Promise.resolve(replica))
    const results = []
    for (const replica of replicas) {
      const only = <T>(call: (replica: Replica) => Promise<T>, signal: AbortSignal): Promise<T> =>
        this.engine.fleet.onOne(replica, request.adapter, call, signal)
      results.push({ server: replica.url, logprobs: await this.scored(request, only) })
    }
    return results
  }

  async close(): Promise<void> {
    this.closed.abort(new InstarError('aborted', 'The measurement was aborted.'))
    await this.engine.close()
  }

  private requireTemperature(temperature: number): void {
    if (this.temperature !== undefined && temperature !== this.temperature)
      throw new InstarError(
        'not_available',
        `The engine computes log-probs of given tokens only at temperature ${this.temperature}, not ${temperature}.`,
      )
  }

  /** The answer to prompt `index`, with its own seed. Asked again if its server fails before its end. */
  private async answer(request: EvaluateRequest, index: number, signal: AbortSignal): Promise<Answer> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.sample(request, index, signal)
      } catch (error) {
        const lost = error instanceof InstarError && error.code === 'engine_lost'
        if (!lost || tries >= ANSWER_TRIES || signal.aborted) throw error
      }
    }
  }

  private async sample(request: EvaluateRequest, index: number, signal: AbortSignal): Promise<Answer> {
    const { adapter, sampling, limits } = request
    const prompt = request.prompts[index]!
    const most = Math.min(limits?.[index] ?? sampling.maxTokens, this.model.contextLength - prompt.length)
    const tokens: GeneratedToken[] = []
    let text = ''
    const answer = this.engine.generate(
      {
        prompt,
        adapter,
        sampling: { ...sampling, seed: sampling.seed + index, maxTokens: Math.max(1, most) },
        topLogprobs: sampling.temperature === 0 ? 0 : TOP,
        session: sessionOf(prompt),
      },
      signal,
    )
    for await (const piece of answer) {
      if (piece.type === 'tokens') {
        tokens.push(...piece.tokens)
        text += piece.tokens.map((token) => token.text).join('')
      } else if (piece.type === 'end') {
        // Log-probs of another temperature do not matter where only texts are compared.
        if (piece.inexact !== undefined && !(piece.inexact === 'other_logprobs' && request.references.length === 0))
          throw new InstarError('engine_refused', `The engine's answer cannot be measured: ${piece.inexact}.`)
        return { ids: tokens.map(({ id }) => id), text: text + piece.text, reason: piece.reason, tokens }
      }
    }
    throw new InstarError('engine_lost', 'The engine ended an answer before its end.')
  }

  /** KL to `reference` per sampled token. */
  private async klTo(
    reference: AdapterSha,
    sampled: { prompts: EvaluateRequest['prompts']; positions: readonly SampledPosition[][]; temperature: number },
  ): Promise<{ mean: number; error: number }> {
    const { prompts, positions, temperature } = sampled
    if (!this.byPosition) {
      const scored = await this.all(
        positions.map((answer, index) => (signal: AbortSignal) => {
          const completion = answer.map(({ sampled: { id } }) => id)
          return this.wholeLogprobs({ prompt: prompts[index]!, completion, adapter: reference }, signal)
        }),
      )
      return meanOverTokens(
        positions.map((answer, index) =>
          answer.map((position, at) => klAt(position, new Map([[position.sampled.id, scored[index]![at]!]]))),
        ),
      )
    }
    const work = positions.flatMap((answer, index) => {
      const prompt = prompts[index]!
      const completion = answer.map(({ sampled: { id } }) => id)
      return answer.map(({ top, sampled: { id } }, at) => {
        const ids = [...new Set([...top.map((one) => one.id), id])]
        return async (signal: AbortSignal): Promise<number> => {
          const next = { prompt: [...prompt, ...completion.slice(0, at)], ids, adapter: reference, temperature }
          const logprobs = await this.engine.fleet.attempt(
            { adapter: reference, session: sessionOf(prompt) },
            (replica) => replica.next(next, signal),
            signal,
          )
          return klAt(answer[at]!, new Map(ids.map((one, i) => [one, logprobs[i]!])))
        }
      })
    })
    const values = await this.all(work)
    return meanOverTokens(positions.map(({ length }) => values.splice(0, length)))
  }

  private wholeLogprobs(request: Omit<ScoreRequest, 'temperature'>, signal: AbortSignal): Promise<number[]> {
    return this.engine.fleet.attempt(
      { adapter: request.adapter, session: sessionOf(request.prompt) },
      (replica) => replica.score({ ...request, temperature: 1 }, signal),
      signal,
    )
  }

  /** Log-probs of the completion, by requests that `run` gives to a replica. */
  private async scored(
    { prompt, completion, adapter, temperature }: ScoreRequest,
    run: <T>(call: (replica: Replica) => Promise<T>, signal: AbortSignal) => Promise<T>,
  ): Promise<Float32Array> {
    const whole = (signal: AbortSignal): Promise<number[]> =>
      run((replica) => replica.score({ prompt, completion, adapter, temperature }, signal), signal)
    const one =
      (id: number, at: number) =>
      (signal: AbortSignal): Promise<number[]> =>
        run(
          (replica) =>
            replica.next({ prompt: [...prompt, ...completion.slice(0, at)], ids: [id], adapter, temperature }, signal),
          signal,
        )
    return Float32Array.from((await this.all(this.byPosition ? completion.map(one) : [whole])).flat())
  }

  private all<T>(work: readonly ((signal: AbortSignal) => Promise<T>)[]): Promise<T[]> {
    return allWithin(this.limit, work, this.closed.signal)
  }
}

/** Requests with one prompt go to one replica, which has its prefix cached. */
const sessionOf = (prompt: readonly number[]): string => `gate ${prompt.length} ${prompt.slice(-16).join(' ')}`
