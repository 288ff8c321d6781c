/**
 * Automata of JSON numbers within bounds: decimals of up to 15 digits, so that different texts are different doubles.
 */
import { patternOf } from './pattern.ts'
import { Budget } from './schema-errors.ts'
import type { CharacterAutomaton } from './characters.ts'
import { asciiTerminal } from './text.ts'
import { KeyedAutomaton, type Terminal } from './terminal.ts'

const DIGITS = 15
/** Maximum number of fraction digits of a bounded number: 15 minus those of the bounds' integer part, at most 6. */
const fractionDigitsOf = (min: number, max: number): number =>
  Math.max(
    0,
    Math.min(
      6,
      DIGITS -
        Math.max(...[min, max].filter(Number.isFinite).map((bound) => String(BigInt(Math.trunc(bound))).length), 1),
    ),
  )

const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30

const terminalOf = (source: string): Terminal =>
  asciiTerminal(patternOf(source, '#', new Budget(), true) as CharacterAutomaton)

export const INTEGER: Terminal = terminalOf(`-?(0|[1-9][0-9]{0,${DIGITS - 1}})`)
export const NUMBER: Terminal = terminalOf(
  `-?(0|[1-9][0-9]{0,${DIGITS - 1}})(\\.[0-9]{1,${DIGITS}})?([eE][+-]?[0-9]{1,2})?`,
)

export type Bounds = { min: number; max: number; above: boolean; below: boolean; multipleOf: number }

/** `value` in units of 10^-fractionDigits, rounded up (`up`) or down. */
function scaled(value: number, fractionDigits: number, up: boolean): bigint {
  const [mantissa = '0', exponent = '0'] = String(Math.abs(value)).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const digits = BigInt(whole + fraction)
  const shift = fractionDigits + Number(exponent) - fraction.length
  const sign = value < 0 ? -1n : 1n
  if (shift >= 0) return sign * digits * 10n ** BigInt(Math.min(shift, 400))
  const unit = 10n ** BigInt(Math.min(-shift, 400))
  const [floor, rest] = [digits / unit, digits % unit !== 0n]
  const outward = rest && value < 0 !== up
  return sign * (floor + (outward ? 1n : 0n))
}

/** The input starts with a sign or digit. `digits`: the number of digits before the point, or after it if `point`. */
type DigitsState =
  | { at: 'sign' | 'first' }
  | { at: 'digits'; negative: boolean; value: bigint; digits: number; point: boolean }
/**
 * The bounds no longer depend on the digits. `ends`: for each number of further integer digits '1' if the number may
 * have that many, else '0'. `residue`: modulo `multipleOf`.
 */
type FreeState = { at: 'free'; ends: string; residue: bigint }
type FreeFractionState = { at: 'fraction'; left: number; ends: boolean }
type NumberState = DigitsState | FreeState | FreeFractionState

/**
 * The automaton of numbers within bounds; null if there are none. `isInteger`: integers only. `multipleOf`: an integer,
 * 1 for any number. `spend` is called before work is done, and may throw. A prefix of digits represents intervals of
 * numbers. If all of them are inside or all outside of the bounds, the state no longer depends on the digits, so that
 * there are few states.
 */
export function numberBetween(
  { min, max, above, below, multipleOf }: Bounds,
  isInteger: boolean,
  spend: (work: number) => void,
): Terminal | null {
  const fractionDigits = isInteger ? 0 : fractionDigitsOf(min, max)
  const unit = 10n ** BigInt(fractionDigits)
  const minScaled = min === -Infinity ? -(10n ** 16n) * unit : scaled(min, fractionDigits, true)
  const maxScaled = max === Infinity ? 10n ** 16n * unit : scaled(max, fractionDigits, false)
  const low = above && scaled(min, fractionDigits, false) === minScaled ? minScaled + 1n : minScaled
  const high = below && scaled(max, fractionDigits, true) === maxScaled ? maxScaled - 1n : maxScaled
  const step = BigInt(multipleOf)
  const maxIntegerDigits = DIGITS - fractionDigits

  /** Whether all (1), none (0) or some (-1) of the numbers with magnitudes `from` to `to` are within the bounds. */
  const within = (negative: boolean, from: bigint, to: bigint): number => {
    const [a, b] = negative ? [-to, -from] : [from, to]
    return a >= low && b <= high ? 1 : b < low || a > high ? 0 : -1
  }

  const collapse = (state: Extract<DigitsState, { at: 'digits' }>): NumberState | null => {
    const { negative, value, digits, point } = state
    if (point) {
      const span = 10n ** BigInt(fractionDigits - digits)
      const inside = within(negative, value * span, (value + 1n) * span - 1n)
      return inside === 0 ? null : inside === 1 ? { at: 'fraction', left: fractionDigits - digits, ends: true } : state
    }
    let ends = ''
    for (let more = 0; more <= (value === 0n ? 0 : maxIntegerDigits - digits); more++) {
      const span = 10n ** BigInt(more)
      const inside = within(negative, value * span * unit, (value + 1n) * span * unit - 1n)
      if (inside < 0) return state
      ends += inside
    }
    return { at: 'free', ends, residue: value % step }
  }

  const nextDigit = (state: Extract<DigitsState, { at: 'digits' }>, byte: number): NumberState | null => {
    const { negative, value, digits, point } = state
    if (byte === POINT) return point || isInteger ? null : { at: 'digits', negative, value, digits: 0, point: true }
    const digit = byte - ZERO
    if (digit < 0 || digit > 9 || digits >= (point ? fractionDigits : maxIntegerDigits) || (!point && value === 0n))
      return null
    return collapse({ at: 'digits', negative, value: value * 10n + BigInt(digit), digits: digits + 1, point })
  }

  const next = (state: NumberState, byte: number): NumberState | null => {
    const digit = byte - ZERO
    const isDigit = digit >= 0 && digit <= 9
    switch (state.at) {
      case 'sign':
        if (byte === MINUS) return { at: 'first' }
        return isDigit
          ? collapse({ at: 'digits', negative: false, value: BigInt(digit), digits: 1, point: false })
          : null
      case 'first':
        return isDigit
          ? collapse({ at: 'digits', negative: true, value: BigInt(digit), digits: 1, point: false })
          : null
      case 'digits':
        return nextDigit(state, byte)
      case 'free':
        if (byte === POINT)
          return isInteger || !state.ends.startsWith('1') ? null : { at: 'fraction', left: fractionDigits, ends: false }
        return isDigit && state.ends.length > 1
          ? { at: 'free', ends: state.ends.slice(1), residue: (state.residue * 10n + BigInt(digit)) % step }
          : null
      case 'fraction':
        return isDigit && state.left > 0 ? { at: 'fraction', left: state.left - 1, ends: true } : null
    }
  }

  const final = (state: NumberState): boolean => {
    if (state.at === 'free') return state.ends.startsWith('1') && state.residue === 0n
    if (state.at === 'fraction') return state.ends
    if (state.at !== 'digits' || (state.point && state.digits === 0)) return false
    const value = state.value * 10n ** BigInt(state.point ? fractionDigits - state.digits : fractionDigits)
    return within(state.negative, value, value) === 1 && state.value % step === 0n
  }

  return pruned(
    new KeyedAutomaton<NumberState>({ at: 'sign' }, (state) => Object.values(state).join(' '), next, final),
    spend,
  )
}

const SYMBOLS = [MINUS, POINT, ...Array.from({ length: 10 }, (_, i) => ZERO + i)]

/** The terminal without states from which no number can be completed; null if the start is one of them. */
function pruned(terminal: Terminal, spend: (work: number) => void): Terminal | null {
  const predecessors = new Map<number, number[]>()
  const states = new Set([terminal.start])
  for (const state of states) {
    spend(100)
    for (const symbol of SYMBOLS) {
      const to = terminal.next(state, symbol)
      if (to < 0) continue
      states.add(to)
      const from = predecessors.get(to)
      if (from) from.push(state)
      else predecessors.set(to, [state])
    }
  }
  const live = new Set<number>()
  const pending = [...states].filter((state) => terminal.accepts(state))
  for (let state = pending.pop(); state !== undefined; state = pending.pop()) {
    if (live.has(state)) continue
    live.add(state)
    pending.push(...(predecessors.get(state) ?? []))
  }
  if (!live.has(terminal.start)) return null
  return {
    start: terminal.start,
    next(state, symbol) {
      const to = terminal.next(state, symbol)
      return live.has(to) ? to : -1
    },
    accepts: (state) => terminal.accepts(state),
    symbols: () => SYMBOLS,
  }
}
