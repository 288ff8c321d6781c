/** Converts the deltas of one answer to `GeneratedPiece`: decodes ids, removes stop strings, compares token counts. */
import type { GeneratedPiece, GenerateRequest, Model, TokenCounts } from '../port.ts'
import { StopStrings } from '../stop.ts'
import { inexactness, logprobsAreExact, type LogprobSteps } from '../protocols/exactness.ts'
import type { Delta, Protocol } from '../protocols/wire.ts'

export class AnswerAssembly {
  private readonly detokenizer: ReturnType<Model['detokenizer']>
  private readonly stops: StopStrings
  private readonly endOfTurn: ReadonlySet<number>
  private readonly exactLogprobs: boolean
  private readonly protocol: Pick<Protocol, 'ids' | 'stopStrings'>
  private ids = 0
  private logprobs = 0
  private usage: TokenCounts | null = null
  private finish: 'stop' | 'length' | null = null
  private stopped = false
  private textWithoutIds = false

  constructor(
    protocol: Pick<Protocol, 'ids' | 'stopStrings' | 'logprobsMasked'>,
    model: Model,
    { sampling, constraint }: GenerateRequest,
    steps: LogprobSteps,
  ) {
    this.protocol = protocol
    this.detokenizer = model.detokenizer()
    this.stops = new StopStrings(sampling.stop)
    this.endOfTurn = new Set(model.endOfTurn)
    this.exactLogprobs = logprobsAreExact(steps, sampling) && (constraint === undefined || protocol.logprobsMasked)
  }

  /** Returns the pieces that can be sent now. */
  add({ tokens, text, finish, usage }: Delta): GeneratedPiece[] {
    this.usage = usage ?? this.usage
    this.finish = finish ?? this.finish
    const pieces: GeneratedPiece[] = []
    if (tokens.length > 0) {
      this.ids += tokens.length
      this.logprobs += tokens.filter(({ logprob }) => Number.isFinite(logprob)).length
      pieces.push({
        type: 'tokens',
        tokens: tokens.map(({ id, logprob, top }) => ({
          id,
          logprob: Number.isFinite(logprob) ? logprob : 0,
          text: this.decode(id),
          top: [...top],
        })),
      })
    }
    if (text !== '') {
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

  private decode(id: number): string {
    return this.endOfTurn.has(id) ? '' : this.untilStop(this.detokenizer.push(id))
  }

  private untilStop(text: string): string {
    if (this.stopped) return ''
    const pushed = this.stops.push(text)
    this.stopped = pushed.stopped
    return pushed.text
  }
}
