/** Accumulates one candidate's answer: the sampled tokens, and which of them were sent to the client. */
import { answerKey, type AnswerKey } from '@instar/events'
import { AnswerParser, type ParserOptions, type Piece, type ParsedAnswer, type Token } from '@instar/dialects'

export type SampledAnswer = { ids: number[]; logprobs: number[]; text: string; shown: ParsedAnswer; answer: AnswerKey }

export class Answer {
  readonly tokens: Token[] = []
  /** Length of the raw text after each token. */
  private readonly ends: number[] = []
  private raw = ''
  private readonly parser: AnswerParser
  private readonly maxCalls: number
  /** All pieces that may be shown so far, in order. */
  readonly pieces: Piece[] = []
  /** Number of tool calls in `pieces`. */
  calls = 0

  /** `oneCall`: the client receives the first tool call only. */
  constructor({ oneCall = false, ...options }: ParserOptions & { oneCall?: boolean }) {
    this.parser = new AnswerParser(options)
    this.maxCalls = oneCall ? 1 : Infinity
  }

  add(token: Token): void {
    this.tokens.push(token)
    this.raw += token.text
    this.ends.push(this.raw.length)
    this.show(this.parser.push(token.text))
  }

  /** Adds text without token ids. */
  addText(text: string): void {
    this.raw += text
    this.show(this.parser.push(text))
  }

  /** `text`: the text that the engine still held back. */
  end(text: string): void {
    this.raw += text
    const last = this.ends.length - 1
    if (last >= 0) this.ends[last] = this.raw.length
    this.show(this.parser.push(text))
    this.show(this.parser.end())
  }

  /** The whole answer. */
  whole(): SampledAnswer {
    return this.upTo(this.pieces, this.tokens.length, this.raw)
  }

  /** The part that the first `sent` pieces contain: the tokens whose text is complete in them, and that text. */
  sent(sent: number): SampledAnswer {
    const pieces = this.pieces.slice(0, sent)
    const upTo = pieces.at(-1)?.upTo ?? 0
    return this.upTo(pieces, this.tokensUpTo(upTo), this.raw.slice(0, upTo))
  }

  /** Number of tokens in the reasoning, including its markers. */
  thought(): number {
    return this.tokensUpTo(this.pieces.findLast(({ type }) => type === 'reasoning')?.upTo ?? 0)
  }

  /** Number of tokens whose text ends before `upTo` in the raw text and is not empty. */
  tokensUpTo(upTo: number): number {
    if (upTo === 0) return 0
    let count = this.ends.length
    while (count > 0 && this.ends[count - 1]! > upTo) count -= 1
    while (count > 0 && this.ends[count - 1] === (this.ends[count - 2] ?? 0)) count -= 1
    return count
  }

  private show(pieces: readonly Piece[]): void {
    for (const piece of pieces) {
      this.pieces.push(piece)
      if (piece.type === 'calls') this.calls += piece.calls.length
    }
  }

  private upTo(pieces: readonly Piece[], tokens: number, text: string): SampledAnswer {
    const shown: ParsedAnswer = { content: '', reasoning: '', calls: [] }
    for (const piece of pieces) {
      if (piece.type === 'calls') shown.calls.push(...piece.calls)
      else shown[piece.type] += piece.text
    }
    shown.calls = shown.calls.slice(0, this.maxCalls)
    const taken = this.tokens.slice(0, tokens)
    return {
      ids: taken.map(({ id }) => id),
      logprobs: taken.map(({ logprob }) => logprob),
      text,
      shown,
      answer: answerKey(shown.content, shown.calls),
    }
  }
}
