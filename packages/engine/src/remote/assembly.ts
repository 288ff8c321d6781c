/** Turns an engine's deltas into the pieces of the port: decodes ids, holds back stop strings, compares token counts. */
import type { GeneratedPiece, GenerateRequest, Model, TokenCounts } from '../port.ts'
import { StopStrings } from '../stop.ts'
import { inexactness, logprobsFit, type Logprobs } from '../protocols/exactness.ts'
import type { Delta, Protocol } from '../protocols/wire.ts'

export class Assembly {
  private readonly detokenizer: ReturnType<Model['detokenizer']>
  private readonly stops: StopStrings
  private readonly endOfTurn: ReadonlySet<number>
  private readonly fit: boolean
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
    logprobs: Logprobs,
  ) {
    this.protocol = protocol
    this.detokenizer = model.detokenizer()
    this.stops = new StopStrings(sampling.stop)
    this.endOfTurn = new Set(model.endOfTurn)
    this.fit = logprobsFit(logprobs, sampling) && (constraint === undefined || protocol.logprobsMasked)
  }

  /** The pieces that may be given out now. */
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
          text: this.textOf(id),
          top: [...top],
        })),
      })
    }
    if (text !== '') {
      this.textWithoutIds = true
      const shown = this.show(text)
      if (shown !== '') pieces.push({ type: 'text', text: shown })
    }
    return pieces
  }

  /** A stop string was found that the engine was not told: the answer ends here. */
  reachedStop(): boolean {
    return this.stopped && !this.protocol.stopStrings
  }

  /** The finish reason is known; without it the answer was cut off. */
  complete(): boolean {
    return this.finish !== null || this.reachedStop()
  }

  end(): GeneratedPiece {
    const rest = this.stopped ? '' : this.show(this.detokenizer.end())
    // For an engine without ids the capabilities say so.
    const inexact = !this.protocol.ids
      ? null
      : inexactness({
          ids: this.ids,
          logprobs: this.logprobs,
          usage: this.usage,
          textWithoutIds: this.textWithoutIds,
          fit: this.fit,
        })
    return {
      type: 'end',
      reason: this.stopped ? 'stop' : (this.finish ?? 'stop'),
      text: this.stopped ? rest : rest + this.stops.end(),
      ...(inexact === null ? {} : { inexact }),
      ...(this.usage === null ? {} : { counts: this.usage }),
    }
  }

  private textOf(id: number): string {
    return this.endOfTurn.has(id) ? '' : this.show(this.detokenizer.push(id))
  }

  private show(text: string): string {
    if (this.stopped) return ''
    const pushed = this.stops.push(text)
    this.stopped = pushed.stopped
    return pushed.text
  }
}
