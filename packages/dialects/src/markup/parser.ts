/**
 * An answer while it is sampled → what the API shows of it, piece by piece: content, reasoning (`<think>…</think>`), tool
 * calls (`<tool_call>…</tool_call>`). What may still become markup is held back; what does not parse stays content.
 */
import type { Piece } from '../answer.ts'
import { callsIn } from './calls.ts'

export type ParserOptions = {
  /** Calls are looked for. */
  tools: boolean
  /** The prompt ended inside an open `<think>`. */
  reasoning: boolean
}

export const THINK_OPEN = '<think>'
export const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'

type Mode = 'start' | 'reasoning' | 'after-reasoning' | 'content' | 'call' | 'after-call'

export class AnswerParser {
  private readonly options: ParserOptions
  private mode: Mode
  /** Raw text that is in no piece yet, and where it begins. */
  private held = ''
  private at = 0
  private pieces: Piece[] = []

  constructor(options: ParserOptions) {
    this.options = options
    this.mode = options.reasoning ? 'reasoning' : 'start'
  }

  push(text: string): Piece[] {
    this.held += text
    return this.run(false)
  }

  /** The rest, whatever it could have become. */
  end(): Piece[] {
    return this.run(true)
  }

  private run(last: boolean): Piece[] {
    let before: string | null = null
    while (before !== `${this.mode}${this.held.length}`) {
      before = `${this.mode}${this.held.length}`
      this.step(last)
    }
    const { pieces } = this
    this.pieces = []
    return pieces
  }

  private step(last: boolean): void {
    const { held } = this
    switch (this.mode) {
      case 'start': {
        const start = held.trimStart()
        if (start.startsWith(THINK_OPEN)) {
          this.skip(held.length - start.length + THINK_OPEN.length)
          this.mode = 'reasoning'
        } else if (last || !THINK_OPEN.startsWith(start)) this.mode = 'content'
        return
      }
      case 'reasoning': {
        const close = held.indexOf(THINK_CLOSE)
        if (close < 0) return this.take('reasoning', last ? held.length : held.length - openTail(held, THINK_CLOSE))
        this.take('reasoning', close)
        this.skip(THINK_CLOSE.length)
        this.mode = 'after-reasoning'
        return
      }
      case 'after-reasoning':
        this.skip(held.length - held.replace(/^\n+/, '').length)
        if (this.held !== '' || last) this.mode = 'content'
        return
      case 'content':
        return this.content(last)
      case 'call':
        return this.call(last)
      case 'after-call':
        // Blanks around calls belong to the markup.
        this.skip(held.length - held.trimStart().length)
        if (this.held !== '') this.mode = 'content'
        return
    }
  }

  private content(last: boolean): void {
    const { held } = this
    if (!this.options.tools) return this.take('content', held.length)
    const open = held.indexOf(CALL_OPEN)
    if (open >= 0) {
      this.take('content', held.slice(0, open).trimEnd().length)
      this.mode = 'call'
      return
    }
    const keep = last ? 0 : openTail(held, CALL_OPEN)
    const sure = held.slice(0, held.length - keep)
    this.take('content', last ? sure.length : sure.trimEnd().length)
  }

  private call(last: boolean): void {
    const { held } = this
    const open = held.indexOf(CALL_OPEN)
    const close = held.indexOf(CALL_CLOSE)
    if (close < 0 && !last) return
    const end = close < 0 ? held.length : close + CALL_CLOSE.length
    const calls = callsIn(held.slice(open + CALL_OPEN.length, close < 0 ? held.length : close))
    if (!calls) {
      // No call after all: shown as it is, the search goes on behind it.
      this.mode = 'content'
      this.take('content', end)
      return
    }
    this.mode = 'after-call'
    this.skip(end)
    this.pieces.push({ type: 'calls', calls, upTo: this.at })
  }

  private take(type: 'content' | 'reasoning', length: number): void {
    if (length <= 0) return
    const text = this.held.slice(0, length)
    this.skip(length)
    this.pieces.push({ type, text, upTo: this.at })
  }

  private skip(length: number): void {
    this.held = this.held.slice(length)
    this.at += length
  }
}

/** Length of the longest end of `text` that is the start of `tag`. */
const openTail = (text: string, tag: string): number => {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length -= 1)
    if (text.endsWith(tag.slice(0, length))) return length
  return 0
}
