/** Parser of `pattern`: ECMAScript regular expressions (flag `u`) without lookaround, back references and other non-regular parts. */
import { END_OF_UNICODE } from './characters.ts'
import { unsupported } from './refusal.ts'

/** From the first up to, not including, the second. */
export type Range = readonly [number, number]
export type Pattern =
  | { type: 'set'; ranges: readonly Range[] }
  | { type: 'all'; parts: readonly Pattern[] }
  | { type: 'any'; parts: readonly Pattern[] }
  | { type: 'times'; part: Pattern; min: number; max: number }
  | { type: 'edge'; of: 'start' | 'end' }

const DIGITS: Range[] = [[0x30, 0x3a]]
const WORD: Range[] = [
  [0x30, 0x3a],
  [0x41, 0x5b],
  [0x5f, 0x60],
  [0x61, 0x7b],
]
const BLANK: Range[] = [
  [9, 14],
  [0x20, 0x21],
  [0xa0, 0xa1],
  [0x1680, 0x1681],
  [0x2000, 0x200b],
  [0x2028, 0x202a],
  [0x202f, 0x2030],
  [0x205f, 0x2060],
  [0x3000, 0x3001],
  [0xfeff, 0xff00],
]
const LINE_ENDS: Range[] = [
  [0x0a, 0x0b],
  [0x0d, 0x0e],
  [0x2028, 0x202a],
]
const LETTERS: Record<string, Range[]> = { d: DIGITS, w: WORD, s: BLANK }
const CONTROL: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 }

export const not = (ranges: readonly Range[]): Range[] => {
  const out: Range[] = []
  let from = 0
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (low > from) out.push([from, low])
    from = Math.max(from, high)
  }
  if (from < END_OF_UNICODE) out.push([from, END_OF_UNICODE])
  return out
}

const one = (character: string): Range => {
  const point = character.codePointAt(0) ?? 0
  return [point, point + 1]
}

const MAX_DEPTH = 50
const MAX_TIMES = 1000

class Reader {
  private readonly text: readonly string[]
  private readonly where: string
  private at = 0
  private depth = 0

  constructor(source: string, where: string) {
    this.text = Array.from(source)
    this.where = where
  }

  read(): Pattern {
    const pattern = this.choice()
    if (this.at < this.text.length) throw this.refuse(`has a ${JSON.stringify(this.text[this.at])} too many`)
    return pattern
  }

  private refuse(why: string): Error {
    return unsupported('pattern', this.where, why)
  }

  private take(expected: string): boolean {
    if (this.text[this.at] !== expected) return false
    this.at++
    return true
  }

  private next(): string {
    const character = this.text[this.at++]
    if (character === undefined) throw this.refuse('ends too early')
    return character
  }

  private choice(): Pattern {
    if (++this.depth > MAX_DEPTH) throw this.refuse('is nested too deeply')
    const parts = [this.sequence()]
    while (this.take('|')) parts.push(this.sequence())
    this.depth--
    return parts.length === 1 ? parts[0]! : { type: 'any', parts }
  }

  private sequence(): Pattern {
    const parts: Pattern[] = []
    while (this.at < this.text.length && this.text[this.at] !== '|' && this.text[this.at] !== ')')
      parts.push(this.repeated(this.atom()))
    return parts.length === 1 ? parts[0]! : { type: 'all', parts }
  }

  private repeated(part: Pattern): Pattern {
    const times = this.times()
    if (!times) return part
    if (part.type === 'edge') throw this.refuse('repeats an anchor')
    // Lazy quantifiers accept the same texts.
    this.take('?')
    if (this.times()) throw this.refuse('repeats a repetition')
    return { type: 'times', part, ...times }
  }

  private times(): { min: number; max: number } | null {
    if (this.take('*')) return { min: 0, max: Infinity }
    if (this.take('+')) return { min: 1, max: Infinity }
    if (this.take('?')) return { min: 0, max: 1 }
    if (this.text[this.at] !== '{') return null
    const written = /^\{(\d{1,9})(?:(,)(\d{1,9})?)?\}/.exec(this.text.slice(this.at, this.at + 24).join(''))
    if (!written) throw this.refuse('has a { that begins no repetition')
    this.at += written[0].length
    const min = Number(written[1])
    const max = written[2] === undefined ? min : written[3] === undefined ? Infinity : Number(written[3])
    if (min > MAX_TIMES || (max !== Infinity && max > MAX_TIMES) || min > max)
      throw this.refuse(`repeats more than ${MAX_TIMES} times, or the wrong way round`)
    return { min, max }
  }

  private atom(): Pattern {
    const character = this.next()
    switch (character) {
      case '^':
        return { type: 'edge', of: 'start' }
      case '$':
        return { type: 'edge', of: 'end' }
      case '.':
        return { type: 'set', ranges: not(LINE_ENDS) }
      case '(':
        return this.group()
      case '[':
        return { type: 'set', ranges: this.set() }
      case '\\':
        return { type: 'set', ranges: this.escape(false) }
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        throw this.refuse(`has a ${JSON.stringify(character)} in a place where it means nothing`)
      default:
        return { type: 'set', ranges: [one(character)] }
    }
  }

  private group(): Pattern {
    if (this.take('?')) {
      const kind = this.next()
      if (kind === '<' && this.text[this.at] !== '=' && this.text[this.at] !== '!') while (this.next() !== '>') continue
      else if (kind !== ':') throw this.refuse('looks ahead or behind, which is not supported')
    }
    const inner = this.choice()
    if (!this.take(')')) throw this.refuse('lacks a )')
    return inner
  }

  private set(): Range[] {
    const negated = this.take('^')
    const ranges: Range[] = []
    while (!this.take(']')) {
      const low = this.member()
      if (this.text[this.at] !== '-' || this.text[this.at + 1] === ']') {
        ranges.push(...low)
        continue
      }
      this.at++
      const high = this.member()
      const [first, last] = [low[0], high[0]]
      if (
        low.length !== 1 ||
        high.length !== 1 ||
        !first ||
        !last ||
        first[1] - first[0] !== 1 ||
        last[1] - last[0] !== 1 ||
        first[0] > last[0]
      )
        throw this.refuse('has a range that is none')
      ranges.push([first[0], last[1]])
    }
    return negated ? not(ranges) : ranges
  }

  private member(): Range[] {
    const character = this.next()
    return character === '\\' ? this.escape(true) : [one(character)]
  }

  private escape(inSet: boolean): Range[] {
    const character = this.next()
    const letters = LETTERS[character.toLowerCase()]
    if (letters) return character === character.toLowerCase() ? [...letters] : not(letters)
    const control = CONTROL[character]
    if (control !== undefined && !/\d/.test(this.text[this.at] ?? '')) return [[control, control + 1]]
    if (character === 'b' && inSet) return [[8, 9]]
    if (character === 'x') return this.hex(2)
    if (character === 'u') {
      if (!this.take('{')) return this.hex(4)
      let digits = ''
      for (let digit = this.next(); digit !== '}'; digit = this.next()) digits += digit
      return this.point(digits)
    }
    if (/[\^$\\.*+?()[\]{}|/-]/.test(character)) return [one(character)]
    throw this.refuse(`has \\${character}, which is not supported`)
  }

  private hex(count: number): Range[] {
    let digits = ''
    for (let i = 0; i < count; i++) digits += this.next()
    return this.point(digits)
  }

  private point(digits: string): Range[] {
    const point = /^[0-9a-fA-F]{1,6}$/.test(digits) ? parseInt(digits, 16) : END_OF_UNICODE
    if (point >= END_OF_UNICODE || (point >= 0xd800 && point < 0xe000))
      throw this.refuse(`has \\u${digits.slice(0, 8)}, which is no character`)
    return [[point, point + 1]]
  }
}

/** Throws `bad_request` naming `pattern`. */
export const readPattern = (source: string, where: string): Pattern => new Reader(source, where).read()
