/**
 * Parser of `pattern`: ECMAScript regular expressions (flag `u`) without lookaround, back references and word
 * boundaries.
 */
import { END_OF_UNICODE } from './characters.ts'
import { unsupported } from './schema-errors.ts'

/** Code points from the first (inclusive) to the second (exclusive). */
export type Range = readonly [number, number]
export type Pattern =
  | { type: 'set'; ranges: readonly Range[] }
  | { type: 'sequence'; parts: readonly Pattern[] }
  | { type: 'alternation'; parts: readonly Pattern[] }
  | { type: 'repetition'; part: Pattern; min: number; max: number }
  | { type: 'anchor'; of: 'start' | 'end' }

const DIGITS: Range[] = [[0x30, 0x3a]]
const WORD: Range[] = [
  [0x30, 0x3a],
  [0x41, 0x5b],
  [0x5f, 0x60],
  [0x61, 0x7b],
]
const WHITE_SPACE: Range[] = [
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
const LINE_TERMINATORS: Range[] = [
  [0x0a, 0x0b],
  [0x0d, 0x0e],
  [0x2028, 0x202a],
]
const CLASS_ESCAPES: Record<string, Range[]> = { d: DIGITS, w: WORD, s: WHITE_SPACE }
const CONTROL_ESCAPES: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 }

const complement = (ranges: readonly Range[]): Range[] => {
  const out: Range[] = []
  let from = 0
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (low > from) out.push([from, low])
    from = Math.max(from, high)
  }
  if (from < END_OF_UNICODE) out.push([from, END_OF_UNICODE])
  return out
}

const rangeOf = (character: string): Range => {
  const codePoint = character.codePointAt(0) ?? 0
  return [codePoint, codePoint + 1]
}

const MAX_DEPTH = 50
const MAX_REPETITIONS = 1000

class PatternParser {
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
    if (this.at < this.text.length) throw this.error(`has an unmatched ${JSON.stringify(this.text[this.at])}`)
    return pattern
  }

  private error(why: string): Error {
    return unsupported('pattern', this.where, why)
  }

  private accept(expected: string): boolean {
    if (this.text[this.at] !== expected) return false
    this.at++
    return true
  }

  private next(): string {
    const character = this.text[this.at++]
    if (character === undefined) throw this.error('is incomplete')
    return character
  }

  private choice(): Pattern {
    if (++this.depth > MAX_DEPTH) throw this.error('is nested too deeply')
    const parts = [this.sequence()]
    while (this.accept('|')) parts.push(this.sequence())
    this.depth--
    return parts.length === 1 ? parts[0]! : { type: 'alternation', parts }
  }

  private sequence(): Pattern {
    const parts: Pattern[] = []
    while (this.at < this.text.length && this.text[this.at] !== '|' && this.text[this.at] !== ')')
      parts.push(this.repeated(this.atom()))
    return parts.length === 1 ? parts[0]! : { type: 'sequence', parts }
  }

  private repeated(part: Pattern): Pattern {
    const quantifier = this.quantifier()
    if (!quantifier) return part
    if (part.type === 'anchor') throw this.error('has a quantifier after an anchor')
    // A lazy quantifier matches the same texts.
    this.accept('?')
    if (this.quantifier()) throw this.error('has a quantifier after a quantifier')
    return { type: 'repetition', part, ...quantifier }
  }

  private quantifier(): { min: number; max: number } | null {
    if (this.accept('*')) return { min: 0, max: Infinity }
    if (this.accept('+')) return { min: 1, max: Infinity }
    if (this.accept('?')) return { min: 0, max: 1 }
    if (this.text[this.at] !== '{') return null
    const match = /^\{(\d{1,9})(?:(,)(\d{1,9})?)?\}/.exec(this.text.slice(this.at, this.at + 24).join(''))
    if (!match) throw this.error('has a { without a valid quantifier')
    this.at += match[0].length
    const min = Number(match[1])
    const max = match[2] === undefined ? min : match[3] === undefined ? Infinity : Number(match[3])
    if (min > MAX_REPETITIONS || (max !== Infinity && max > MAX_REPETITIONS) || min > max)
      throw this.error(`has a quantifier above ${MAX_REPETITIONS}, or with a minimum above its maximum`)
    return { min, max }
  }

  private atom(): Pattern {
    const character = this.next()
    switch (character) {
      case '^':
        return { type: 'anchor', of: 'start' }
      case '$':
        return { type: 'anchor', of: 'end' }
      case '.':
        return { type: 'set', ranges: complement(LINE_TERMINATORS) }
      case '(':
        return this.group()
      case '[':
        return { type: 'set', ranges: this.characterClass() }
      case '\\':
        return { type: 'set', ranges: this.escape(false) }
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        throw this.error(`has a misplaced ${JSON.stringify(character)}`)
      default:
        return { type: 'set', ranges: [rangeOf(character)] }
    }
  }

  private group(): Pattern {
    if (this.accept('?')) {
      const kind = this.next()
      if (kind === '<' && this.text[this.at] !== '=' && this.text[this.at] !== '!') while (this.next() !== '>') continue
      else if (kind !== ':') throw this.error('has a lookaround, which is not supported')
    }
    const inner = this.choice()
    if (!this.accept(')')) throw this.error('has a missing )')
    return inner
  }

  private characterClass(): Range[] {
    const negated = this.accept('^')
    const ranges: Range[] = []
    while (!this.accept(']')) {
      const low = this.classAtom()
      if (this.text[this.at] !== '-' || this.text[this.at + 1] === ']') {
        ranges.push(...low)
        continue
      }
      this.at++
      const high = this.classAtom()
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
        throw this.error('has an invalid character range')
      ranges.push([first[0], last[1]])
    }
    return negated ? complement(ranges) : ranges
  }

  private classAtom(): Range[] {
    const character = this.next()
    return character === '\\' ? this.escape(true) : [rangeOf(character)]
  }

  private escape(inSet: boolean): Range[] {
    const character = this.next()
    const letters = CLASS_ESCAPES[character.toLowerCase()]
    if (letters) return character === character.toLowerCase() ? [...letters] : complement(letters)
    const control = CONTROL_ESCAPES[character]
    if (control !== undefined && !/\d/.test(this.text[this.at] ?? '')) return [[control, control + 1]]
    if (character === 'b' && inSet) return [[8, 9]]
    if (character === 'x') return this.hex(2)
    if (character === 'u') {
      if (!this.accept('{')) return this.hex(4)
      let digits = ''
      for (let digit = this.next(); digit !== '}'; digit = this.next()) digits += digit
      return this.codePoint(digits)
    }
    if (/[\^$\\.*+?()[\]{}|/-]/.test(character)) return [rangeOf(character)]
    throw this.error(`has \\${character}, which is not supported`)
  }

  private hex(count: number): Range[] {
    let digits = ''
    for (let i = 0; i < count; i++) digits += this.next()
    return this.codePoint(digits)
  }

  private codePoint(digits: string): Range[] {
    const codePoint = /^[0-9a-fA-F]{1,6}$/.test(digits) ? parseInt(digits, 16) : END_OF_UNICODE
    if (codePoint >= END_OF_UNICODE || (codePoint >= 0xd800 && codePoint < 0xe000))
      throw this.error(`has \\u${digits.slice(0, 8)}, which is not a character`)
    return [[codePoint, codePoint + 1]]
  }
}

/** Parses a pattern. Throws `bad_request` if it is invalid or not supported. */
export const parsePattern = (source: string, where: string): Pattern => new PatternParser(source, where).read()
