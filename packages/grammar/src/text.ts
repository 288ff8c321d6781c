/**
 * JSON strings byte by byte: quotes, UTF-8, escapes. `\u….` is accepted only for characters that must be escaped, so
 * that each text has few spellings.
 */
import { classOf, isSurrogates, END_OF_UNICODE, type Characters } from './characters.ts'
import { KeyedAutomaton, type Terminal } from './terminal.ts'

/**
 * `state`: of the character automaton. `lead`: payload bits so far of a character with `more` bytes missing; `least`: the
 * smallest character of this encoding length. `free`: any continuation leads to `state`.
 */
type Place =
  | { at: 'before' | 'after' }
  | { at: 'text'; state: number; behindLess: boolean }
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

const keyOf = (place: Place): string => Object.values(place).join(' ')

/** `inCall`: `</` is written `<\/`, so that no text ends the call around it. */
export function jsonText(characters: Characters, inCall: boolean): Terminal {
  const { cuts, table, accepts } = characters
  const over = (state: number, character: number): number => table[state]?.[classOf(characters, character)] ?? -1
  const some = (state: number, list: Iterable<number>): boolean => {
    for (const character of list) if (over(state, character) >= 0) return true
    return false
  }

  /** After some bytes of a character. Null: no allowed character begins with them. */
  const begun = (state: number, lead: number, more: number, least: number): Place | null => {
    const from = lead << (6 * more)
    const to = from + (1 << (6 * more)) - 1
    const low = Math.max(from, least)
    const high = Math.min(to, END_OF_UNICODE - 1)
    if (high < low) return null
    let only: number | null = null
    let live = false
    for (let c = classOf(characters, low); c < cuts.length && (cuts[c] ?? 0) <= high; c++) {
      const next = isSurrogates(cuts[c] ?? 0) ? -1 : (table[state]?.[c] ?? -1)
      live ||= next >= 0
      only = only === null || only === next ? next : -2
    }
    if (!live) return null
    // Not free if part of the range has no characters.
    return only !== null && only >= 0 && low === from && high === to
      ? { at: 'free', state: only, more }
      : { at: 'inside', state, lead, more, least }
  }

  const inText = (state: number, byte: number, behindLess: boolean): Place | null => {
    if (byte === 0x22) return accepts[state] ? { at: 'after' } : null
    if (byte === 0x5c) return some(state, ESCAPES.values()) || some(state, CONTROLS) ? { at: 'escape', state } : null
    if (byte < 0x20) return null
    if (byte < 0x80) {
      const to = over(state, byte)
      return to < 0 || (inCall && behindLess && byte === SLASH)
        ? null
        : { at: 'text', state: to, behindLess: inCall && byte === LESS }
    }
    if (byte < 0xc2 || byte > 0xf4) return null
    if (byte < 0xe0) return begun(state, byte & 0x1f, 1, 0x80)
    return byte < 0xf0 ? begun(state, byte & 0x0f, 2, 0x800) : begun(state, byte & 0x07, 3, 0x10000)
  }

  const inside = (place: Extract<Place, { at: 'inside' | 'free' }>, byte: number): Place | null => {
    if (byte < 0x80 || byte > 0xbf) return null
    const more = place.more - 1
    if (place.at === 'free')
      return more === 0
        ? { at: 'text', state: place.state, behindLess: false }
        : { at: 'free', state: place.state, more }
    const lead = (place.lead << 6) | (byte & 0x3f)
    if (more > 0) return begun(place.state, lead, more, place.least)
    const to = lead < place.least || lead >= END_OF_UNICODE || isSurrogates(lead) ? -1 : over(place.state, lead)
    return to < 0 ? null : { at: 'text', state: to, behindLess: false }
  }

  const escaped = (state: number, byte: number): Place | null => {
    if (byte === 0x75) return some(state, CONTROLS) ? { at: 'hex', state, digits: '' } : null
    const character = ESCAPES.get(byte)
    const to = character === undefined ? -1 : over(state, character)
    return to < 0 ? null : { at: 'text', state: to, behindLess: false }
  }

  /** The four hexadecimal digits of a control character. */
  const hex = (state: number, digits: string): Place | null => {
    if (!/^0{0,2}$|^00[01][0-9a-fA-F]?$/.test(digits)) return null
    if (digits.length === 4) {
      const to = over(state, parseInt(digits, 16))
      return to < 0 ? null : { at: 'text', state: to, behindLess: false }
    }
    const from = digits.length === 3 ? parseInt(digits, 16) * 16 : 0
    return some(state, digits.length === 3 ? CONTROLS.slice(from, from + 16) : CONTROLS)
      ? { at: 'hex', state, digits }
      : null
  }

  const step = (place: Place, byte: number): Place | null => {
    if (byte > 255) return null
    switch (place.at) {
      case 'before':
        return byte === 0x22 ? { at: 'text', state: 0, behindLess: false } : null
      case 'text':
        return inText(place.state, byte, place.behindLess)
      case 'escape':
        return escaped(place.state, byte)
      case 'hex':
        return hex(place.state, place.digits + String.fromCharCode(byte))
      case 'inside':
      case 'free':
        return inside(place, byte)
      case 'after':
        return null
    }
  }

  return new KeyedAutomaton<Place>({ at: 'before' }, keyOf, step, ({ at }) => at === 'after')
}

/** An automaton over ASCII characters as a terminal without quotes. */
export const bare = (characters: Characters): Terminal => ({
  start: 0,
  next: (state, symbol) => (symbol > 127 ? -1 : (characters.table[state]?.[classOf(characters, symbol)] ?? -1)),
  accepts: (state) => characters.accepts[state] ?? false,
})
