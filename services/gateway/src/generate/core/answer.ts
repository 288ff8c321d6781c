/** One candidate's answer as it grows: the sampled tokens, and which of them the client has been sent. */
import { answerKey, type AnswerKey } from '@instar/events'
import { AnswerParser, type ParserOptions, type Piece, type Shown, type Token } from '@instar/dialects'

export type Said = { ids: number[]; logprobs: number[]; text: string; shown: Shown; answer: AnswerKey }

export class Answer {
  readonly tokens: Token[] = []
  /** Length of the raw text once the token of this place was added. */
  private readonly ends: number[] = []
  private raw = ''
  private readonly parser: AnswerParser
  private readonly mostCalls: number
  /** All that may be shown so far, in order. */
  readonly pieces: Piece[] = []

  /** `oneCall`: its client is shown the first call alone. */
  constructor({ oneCall = false, ...options }: ParserOptions & { oneCall?: boolean }) {
    this.parser = new AnswerParser(options)
    this.mostCalls = oneCall ? 1 : Infinity
  }

  add(token: Token): void {
    this.tokens.push(token)
    this.raw += token.text
    this.ends.push(this.raw.length)
    this.pieces.push(...this.parser.push(token.text))
  }

  /** Text that came without its tokens. */
  addText(text: string): void {
    this.raw += text
    this.pieces.push(...this.parser.push(text))
  }

  /** `text`: what the engine still held back. */
  end(text: string): void {
    this.raw += text
    const last = this.ends.length - 1
    if (last >= 0) this.ends[last] = this.raw.length
    this.pieces.push(...this.parser.push(text), ...this.parser.end())
  }

  /** The whole answer. */
  whole(): Said {
    return this.upTo(this.pieces, this.tokens.length, this.raw)
  }

  /** What the first `sent` pieces showed: the tokens whose text is all in them, and that text. */
  sent(sent: number): Said {
    const pieces = this.pieces.slice(0, sent)
    const upTo = pieces.at(-1)?.upTo ?? 0
    return this.upTo(pieces, this.tokensUpTo(upTo), this.raw.slice(0, upTo))
  }

  /** Tokens of the thoughts, the marks around them included. */
  thought(): number {
    return this.tokensUpTo(this.pieces.findLast(({ type }) => type === 'reasoning')?.upTo ?? 0)
  }

  /** How many tokens have all their text before `upTo` in the raw text, and bring some of it. */
  tokensUpTo(upTo: number): number {
    if (upTo === 0) return 0
    let count = this.ends.length
    while (count > 0 && this.ends[count - 1]! > upTo) count -= 1
    while (count > 0 && this.ends[count - 1] === (this.ends[count - 2] ?? 0)) count -= 1
    return count
  }

  private upTo(pieces: readonly Piece[], tokens: number, text: string): Said {
    const shown: Shown = { content: '', reasoning: '', calls: [] }
    for (const piece of pieces) {
      if (piece.type === 'calls') shown.calls.push(...piece.calls)
      else shown[piece.type] += piece.text
    }
    shown.calls = shown.calls.slice(0, this.mostCalls)
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
