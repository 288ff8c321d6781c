/** Requests of a batch, their state, and the events that they emit. */
import type { FinishReason, GenerateRequest, GeneratedToken, ScoreRequest, Scores } from '@instar/engine/port'
import type { ErrorCode } from '@instar/events/errors'
import { Detokenizer } from '../tokenizer/detokenizer.ts'
import type { TextTokenizer } from '../tokenizer/tokenizer.ts'
import type { ConstraintCursor } from '@instar/grammar'
import { uniform } from './random.ts'
import { Reweighter } from './reweight.ts'
import { highest, logprobOf, logSumExp, sample } from './sample.ts'
import { StopStrings } from '@instar/engine/stop'

/** `topLogprobs`: number of most likely tokens that are reported for each position. */
type ScoreWithTop = ScoreRequest & { topLogprobs?: number }
export type JobRequest = ({ kind: 'generate' } & GenerateRequest) | ({ kind: 'score' } & ScoreWithTop)

/**
 * `key`: the caller's id of the request. `score`, `error`, and `pieces` with an `end`, are each the last event of a
 * request.
 */
export type BatchEvent =
  | { key: number; type: 'pieces'; tokens: GeneratedToken[]; end: { reason: FinishReason; text: string } | null }
  | { key: number; type: 'score'; scores: Scores }
  | { key: number; type: 'error'; code: ErrorCode; message: string; details: Record<string, unknown> }

type Ending = { reason: FinishReason; text: string }

/** Samples the tokens of one completion from rows of logits. */
export class Generation {
  readonly request: GenerateRequest
  private readonly detokenizer: Detokenizer
  private readonly stops: StopStrings
  private readonly endOfTurn: ReadonlySet<number>
  private readonly constraint: ConstraintCursor | null
  private readonly reweighter: Reweighter | null
  private count = 0

  constructor(
    request: GenerateRequest,
    tokenizer: Pick<TextTokenizer, 'bytesOf'>,
    endOfTurn: ReadonlySet<number>,
    constraint: ConstraintCursor | null = null,
  ) {
    this.request = request
    this.detokenizer = new Detokenizer(tokenizer)
    this.stops = new StopStrings(request.sampling.stop)
    this.endOfTurn = endOfTurn
    this.constraint = constraint
    const { reweighting, sampling, prompt } = request
    this.reweighter = reweighting ? new Reweighter(reweighting, sampling.temperature, prompt) : null
  }

  /** Samples the next token. `room`: free positions in the context, that of this token included. */
  next(logits_V: Float32Array, room: number): { token: GeneratedToken; end: Ending | null } {
    const { sampling, topLogprobs } = this.request
    const masked_V = this.constraint?.masked(logits_V) ?? logits_V
    const { id, logprob, top } = sample(
      this.reweighter?.apply(masked_V) ?? masked_V,
      sampling,
      uniform(sampling.seed, this.count),
      topLogprobs,
    )
    this.count++
    if (this.endOfTurn.has(id)) return { token: { id, logprob, text: '', top }, end: this.end('stop') }
    this.constraint?.push(id)
    this.reweighter?.push(id)
    const { text, stopped } = this.stops.push(this.detokenizer.push(id))
    const atLimit = this.count >= sampling.maxTokens || room <= 1
    return {
      token: { id, logprob, text, top },
      end: stopped ? { reason: 'stop', text: '' } : atLimit ? this.end('length') : null,
    }
  }

  private end(reason: FinishReason): Ending {
    const { text, stopped } = this.stops.push(this.detokenizer.end())
    return stopped ? { reason: 'stop', text } : { reason, text: text + this.stops.end() }
  }
}

/** Collects the log-probabilities of the tokens of a given completion. */
export class Scoring {
  readonly logprobs: Float32Array
  private readonly top: Scores['top'] = []
  private readonly request: ScoreWithTop

  constructor(request: ScoreWithTop) {
    this.request = request
    this.logprobs = new Float32Array(request.completion.length)
  }

  /** `logits` [n, V]: the logits at the positions `from`, `from` + 1, … of prompt + completion. */
  add(logits: Float32Array, from: number, vocabulary: number): void {
    const { prompt, completion, temperature, topLogprobs = 0 } = this.request
    for (let i = 0; i * vocabulary < logits.length; i++) {
      const at = from + i - (prompt.length - 1)
      const row = logits.subarray(i * vocabulary, (i + 1) * vocabulary)
      this.logprobs[at] = logprobOf(row, completion[at]!, temperature)
      if (topLogprobs === 0) continue
      const t = temperature === 0 ? 1 : temperature
      const total = logSumExp(row, t)
      this.top[at] = highest(row, topLogprobs).map((id) => ({ id, logprob: Math.fround(row[id]! / t - total) }))
    }
  }

  scores(): Scores {
    return { logprobs: this.logprobs, top: this.top }
  }
}
