/**
 * Terminals of JSON strings, byte by byte: quotes, UTF-8, escapes. `\u` escapes are accepted only for characters that
 * must be escaped, so that each text has few encodings.
 */
import { classOf, isSurrogate, END_OF_UNICODE, type CharacterAutomaton } from './characters.ts'
import { KeyedAutomaton, type Terminal } from './terminal.ts'

/**
 * A position in a JSON string. `state`: of the character automaton; `afterLess`: after `<`. `inside`: within a UTF-8
 * sequence with payload `lead` so far and `more` bytes missing; `least`: the smallest code point of this length.
 * `free`: any rest of the sequence leads to `state`.
 */
type TextState =
  | { at: 'before' | 'after' }
  | { at: 'text'; state: number; afterLess: boolean }
  | { at: 'inside'; state: number; lead: number; more: number; least: number }
  | { at: 'free'; state: number; more: number }
  | { at: 'escape'; state: number }
  | { at: 'hex'; state: number; digits: string }

const ESCAPES = new Map<number, number>([
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x2f, 0x2f],
  [0x62, 8],
  [0x66, 12],
  [0x6e, 10],
  [0x72, 13],
  [0x74, 9],
])
const CONTROLS = Array.from({ length: 32 }, (_, i) => i)
const LESS = 0x3c
const SLASH = 0x2f

const keyOf = (position: TextState): string => Object.values(position).join(' ')

/**
 * The terminal of a JSON string. `inCall`: `</` is written `<\/`, so that no string contains the call's closing tag.
 */
export function jsonText(characters: CharacterAutomaton, inCall: boolean): Terminal {
  const { cuts, table, accepts } = characters
  const nextState = (state: number, character: number): number => table[state]?.[classOf(characters, character)] ?? -1
  const hasAny = (state: number, list: Iterable<number>): boolean => {
    for (const character of list) if (nextState(state, character) >= 0) return true
    return false
  }

  /** The position within a UTF-8 sequence; null if no allowed character starts with these bytes. */
  const partial = (state: number, lead: number, more: number, least: number): TextState | null => {
    const from = lead << (6 * more)
    const to = from + (1 << (6 * more)) - 1
    const low = Math.max(from, least)
    const high = Math.min(to, END_OF_UNICODE - 1)
    if (high < low) return null
    let only: number | null = null
    let live = false
    for (let c = classOf(characters, low); c < cuts.length && (cuts[c] ?? 0) <= high; c++) {
      const next = isSurrogate(cuts[c] ?? 0) ? -1 : (table[state]?.[c] ?? -1)
      live ||= next >= 0
      only = only === null || only === next ? next : -2
    }
    if (!live) return null
    // Not free if a part of the range has no characters.
    return only !== null && only >= 0 && low === from && high === to
      ? { at: 'free', state: only, more }
      : { at: 'inside', state, lead, more, least }
  }

  const inText = (state: number, byte: number, afterLess: boolean): TextState | null => {
    if (byte === 0x22) return accepts[state] ? { at: 'after' } : null
    if (byte === 0x5c)
      return hasAny(state, ESCAPES.values()) || hasAny(state, CONTROLS) ? { at: 'escape', state } : null
    if (byte < 0x20) return null
    if (byte < 0x80) {
      const to = nextState(state, byte)
      return to < 0 || (inCall && afterLess && byte === SLASH)
        ? null
        : { at: 'text', state: to, afterLess: inCall && byte === LESS }
    }
    if (byte < 0xc2 || byte > 0xf4) return null
    if (byte < 0xe0) return partial(state, byte & 0x1f, 1, 0x80)
    return byte < 0xf0 ? partial(state, byte & 0x0f, 2, 0x800) : partial(state, byte & 0x07, 3, 0x10000)
  }

  const inside = (position: Extract<TextState, { at: 'inside' | 'free' }>, byte: number): TextState | null => {
    if (byte < 0x80 || byte > 0xbf) return null
    const more = position.more - 1
    if (position.at === 'free')
      return more === 0
        ? { at: 'text', state: position.state, afterLess: false }
        : { at: 'free', state: position.state, more }
    const lead = (position.lead << 6) | (byte & 0x3f)
    if (more > 0) return partial(position.state, lead, more, position.least)
    const to =
      lead < position.least || lead >= END_OF_UNICODE || isSurrogate(lead) ? -1 : nextState(position.state, lead)
    return to < 0 ? null : { at: 'text', state: to, afterLess: false }
  }

  const escaped = (state: number, byte: number): TextState | null => {
    if (byte === 0x75) return hasAny(state, CONTROLS) ? { at: 'hex', state, digits: '' } : null
    const character = ESCAPES.get(byte)
    const to = character === undefined ? -1 : nextState(state, character)
    return to < 0 ? null : { at: 'text', state: to, afterLess: false }
  }

  /** The position after some of the four hexadecimal digits of an escaped control character. */
  const hex = (state: number, digits: string): TextState | null => {
    if (!/^0{0,2}$|^00[01][0-9a-fA-F]?$/.test(digits)) return null
    if (digits.length === 4) {
      const to = nextState(state, parseInt(digits, 16))
      return to < 0 ? null : { at: 'text', state: to, afterLess: false }
    }
    const from = digits.length === 3 ? parseInt(digits, 16) * 16 : 0
    return hasAny(state, digits.length === 3 ? CONTROLS.slice(from, from + 16) : CONTROLS)
      ? { at: 'hex', state, digits }
      : null
  }

  const step = (position: TextState, byte: number): TextState | null => {
    if (byte > 255) return null
    switch (position.at) {
      case 'before':
        return byte === 0x22 ? { at: 'text', state: 0, afterLess: false } : null
      case 'text':
        return inText(position.state, byte, position.afterLess)
      case 'escape':
        return escaped(position.state, byte)
      case 'hex':
        return hex(position.state, position.digits + String.fromCharCode(byte))
      case 'inside':
      case 'free':
        return inside(position, byte)
      case 'after':
        return null
    }
  }

  return new KeyedAutomaton<TextState>({ at: 'before' }, keyOf, step, ({ at }) => at === 'after')
}

/** A terminal without quotes, of an automaton over ASCII characters. */
export const asciiTerminal = (characters: CharacterAutomaton): Terminal => ({
  start: 0,
  next: (state, symbol) => (symbol > 127 ? -1 : (characters.table[state]?.[classOf(characters, symbol)] ?? -1)),
  accepts: (state) => characters.accepts[state] ?? false,
})
