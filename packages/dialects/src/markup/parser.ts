/**
 * Incremental parser of sampled text into content, reasoning (`<think>…</think>`) and tool calls
 * (`<tool_call>…</tool_call>`). Text that may be the start of a tag is buffered; a block that does not parse is
 * content.
 */
import type { Piece } from '../answer.ts'
import { callsIn } from './calls.ts'

export type ParserOptions = {
  /** Parse tool calls; false: their markup is content. */
  tools: boolean
  /** The prompt ends inside an open `<think>`, so the answer begins with reasoning. */
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
  /** Sampled text that no piece contains yet; `at`: its offset in the whole text. */
  private pending = ''
  private at = 0
  private pieces: Piece[] = []
  /** `pending` is white space alone. */
  private blank = true
  /** The end of `pending`, where the closing tag of a call may have begun. */
  private tail = ''

  constructor(options: ParserOptions) {
    this.options = options
    this.mode = options.reasoning ? 'reasoning' : 'start'
  }

  push(text: string): Piece[] {
    this.pending += text
    if (this.isUndecided(text)) return []
    const pieces = this.run(false)
    this.blank = this.mode !== 'call' && this.pending.trimStart() === ''
    this.tail = this.mode === 'call' ? this.pending.slice(1 - CALL_CLOSE.length) : ''
    return pieces
  }

  /** The remaining pieces. An unfinished tag is content; an unclosed block is parsed as if it were closed. */
  end(): Piece[] {
    return this.run(true)
  }

  /** Whether `text` only adds to what is buffered. It alone is read, so that reading an answer stays linear. */
  private isUndecided(text: string): boolean {
    if (this.mode === 'call') {
      const read = this.tail + text
      this.tail = read.slice(1 - CALL_CLOSE.length)
      return !read.includes(CALL_CLOSE)
    }
    const isBuffered = this.mode === 'start' || (this.mode === 'content' && this.options.tools)
    return isBuffered && this.blank && text.trimStart() === ''
  }

  private run(last: boolean): Piece[] {
    let before: string | null = null
    while (before !== `${this.mode}${this.pending.length}`) {
      before = `${this.mode}${this.pending.length}`
      this.step(last)
    }
    const { pieces } = this
    this.pieces = []
    return pieces
  }

  private step(last: boolean): void {
    const { pending } = this
    switch (this.mode) {
      case 'start': {
        const start = pending.trimStart()
        if (start.startsWith(THINK_OPEN)) {
          this.skip(pending.length - start.length + THINK_OPEN.length)
          this.mode = 'reasoning'
        } else if (last || !THINK_OPEN.startsWith(start)) this.mode = 'content'
        return
      }
      case 'reasoning': {
        const close = pending.indexOf(THINK_CLOSE)
        if (close < 0)
          return this.take('reasoning', last ? pending.length : pending.length - partialTagLength(pending, THINK_CLOSE))
        this.take('reasoning', close)
        this.skip(THINK_CLOSE.length)
        this.mode = 'after-reasoning'
        return
      }
      case 'after-reasoning':
        this.skip(pending.length - pending.replace(/^\n+/, '').length)
        if (this.pending !== '' || last) this.mode = 'content'
        return
      case 'content':
        return this.content(last)
      case 'call':
        return this.call(last)
      case 'after-call':
        // White space around calls is markup.
        this.skip(pending.length - pending.trimStart().length)
        if (this.pending !== '') this.mode = 'content'
        return
    }
  }

  private content(last: boolean): void {
    const { pending } = this
    if (!this.options.tools) return this.take('content', pending.length)
    const open = pending.indexOf(CALL_OPEN)
    if (open >= 0) {
      this.take('content', pending.slice(0, open).trimEnd().length)
      this.mode = 'call'
      return
    }
    const buffered = last ? 0 : partialTagLength(pending, CALL_OPEN)
    const content = pending.slice(0, pending.length - buffered)
    this.take('content', last ? content.length : content.trimEnd().length)
  }

  private call(last: boolean): void {
    const { pending } = this
    const open = pending.indexOf(CALL_OPEN)
    const close = pending.indexOf(CALL_CLOSE)
    if (close < 0 && !last) return
    const end = close < 0 ? pending.length : close + CALL_CLOSE.length
    const calls = callsIn(pending.slice(open + CALL_OPEN.length, close < 0 ? pending.length : close))
    if (!calls) {
      // The block does not parse: it is content, and parsing continues behind it.
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
    const text = this.pending.slice(0, length)
    this.skip(length)
    this.pieces.push({ type, text, upTo: this.at })
  }

  private skip(length: number): void {
    this.pending = this.pending.slice(length)
    this.at += length
  }
}

/** The length of the longest suffix of `text` that is a proper prefix of `tag`. */
const partialTagLength = (text: string, tag: string): number => {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length -= 1)
    if (text.endsWith(tag.slice(0, length))) return length
  return 0
}
