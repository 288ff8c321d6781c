/**
 * Converts the deltas of one answer to `GeneratedPiece`: decodes ids, removes stop strings, compares token counts and
 * limits the answer's size.
 */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Model, TokenCounts } from '../port.ts'
import { StopStrings } from '../stop.ts'
import { answerBytesMax } from '../protocols/answer-limits.ts'
import {
  allCertain,
  inexactness,
  isFree,
  logprobsAreExact,
  tokenFault,
  type LogprobSteps,
} from '../protocols/exactness.ts'
import type { Delta, Protocol } from '../protocols/wire.ts'

export class AnswerAssembly {
  private readonly detokenizer: ReturnType<Model['detokenizer']>
  private readonly stops: StopStrings
  private readonly endOfTurn: ReadonlySet<number>
  private readonly exactLogprobs: boolean
  private readonly protocol: Pick<Protocol, 'ids' | 'stopStrings'>
  private ids = 0
  private logprobs = 0
  /** Tokens whose log-prob is exactly 0. */
  private zeros = 0
  private readonly request: GenerateRequest
  private usage: TokenCounts | null = null
  private finish: 'stop' | 'length' | null = null
  private stopped = false
  private textWithoutIds = false
  private readonly bounds: Parameters<typeof tokenFault>[2]
  private readonly maxBytes: number
  private bytes = 0
  /** Why the reported tokens are not those that were sampled; the later ones are passed on as text. */
  private fault: ReturnType<typeof tokenFault> = null

  constructor(
    protocol: Pick<Protocol, 'ids' | 'stopStrings' | 'logprobsMasked'>,
    model: Model,
    request: GenerateRequest,
    steps: LogprobSteps,
  ) {
    const { sampling, prompt, constraint } = request
    this.request = request
    this.protocol = protocol
    this.detokenizer = model.detokenizer()
    this.stops = new StopStrings(sampling.stop)
    this.bounds = {
      vocabulary: model.vocabulary,
      limit: Math.min(sampling.maxTokens, model.contextLength - prompt.length),
      free: isFree(request),
    }
    this.maxBytes = answerBytesMax(sampling.maxTokens)
    this.endOfTurn = new Set(model.endOfTurn)
    this.exactLogprobs = logprobsAreExact(steps, sampling) && (constraint === undefined || protocol.logprobsMasked)
  }

  /** Returns the pieces that can be sent now. Throws `engine_lost` if the answer is larger than it may be. */
  add({ tokens, text, finish, usage }: Delta): GeneratedPiece[] {
    this.usage = usage ?? this.usage
    this.finish = finish ?? this.finish
    const pieces: GeneratedPiece[] = []
    if (tokens.length > 0) {
      for (const [at, token] of tokens.entries()) this.fault ??= tokenFault(token, this.ids + at, this.bounds)
      this.ids += tokens.length
      this.count(tokens.length)
      this.zeros += tokens.filter(({ logprob }) => logprob === 0).length
      this.logprobs += tokens.filter(({ logprob }) => Number.isFinite(logprob)).length
      const decoded = tokens.map(({ id, logprob, top }) => ({
        id,
        ...(Number.isFinite(logprob) ? { logprob } : { logprob: 0, unreported: true as const }),
        text: this.decode(id),
        top: [...top],
      }))
      const said = decoded.map((token) => token.text).join('')
      this.count(Buffer.byteLength(said))
      pieces.push(this.fault === null ? { type: 'tokens', tokens: decoded } : { type: 'text', text: said })
    }
    if (text !== '') {
      this.count(Buffer.byteLength(text))
      this.textWithoutIds = true
      const sent = this.untilStop(text)
      if (sent !== '') pieces.push({ type: 'text', text: sent })
    }
    return pieces
  }

  /** A stop string was found that the engine does not match itself: the answer ends and the request is cancelled. */
  stopFound(): boolean {
    return this.stopped && !this.protocol.stopStrings
  }

  /** Whether the answer has its end. If false at the end of the response, the answer was cut off. */
  complete(): boolean {
    return this.finish !== null || this.stopFound()
  }

  end(): GeneratedPiece {
    const decoded = this.stopped ? '' : this.untilStop(this.detokenizer.end())
    // For an engine without ids, `Capabilities.tokenExact` is false.
    const inexact = !this.protocol.ids
      ? null
      : inexactness({
          fault: this.fault ?? (allCertain(this.request, { ids: this.ids, zeros: this.zeros }) ? 'bad_logprobs' : null),
          ids: this.ids,
          logprobs: this.logprobs,
          usage: this.usage,
          textWithoutIds: this.textWithoutIds,
          exactLogprobs: this.exactLogprobs,
        })
    return {
      type: 'end',
      reason: this.stopped ? 'stop' : (this.finish ?? 'stop'),
      text: this.stopped ? decoded : decoded + this.stops.end(),
      ...(inexact === null ? {} : { inexact }),
      ...(this.usage === null ? {} : { counts: this.usage }),
    }
  }

  private count(bytes: number): void {
    this.bytes += bytes
    if (this.bytes > this.maxBytes)
      throw new InstarError('engine_lost', `The engine's answer has more than ${this.maxBytes} bytes.`)
  }

  private decode(id: number): string {
    const known = Number.isInteger(id) && id >= 0 && id < this.bounds.vocabulary
    return !known || this.endOfTurn.has(id) ? '' : this.untilStop(this.detokenizer.push(id))
  }

  private untilStop(text: string): string {
    if (this.stopped) return ''
    const pushed = this.stops.push(text)
    this.stopped = pushed.stopped
    return pushed.text
  }
}
