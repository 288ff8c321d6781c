/** JSON numbers between bounds: plain decimals of up to 15 digits, so that no two are the same double. */
import { patternOf } from './pattern.ts'
import { Budget } from './refusal.ts'
import type { Characters } from './characters.ts'
import { bare } from './text.ts'
import { KeyedAutomaton, type Terminal } from './terminal.ts'

const DIGITS = 15
/** Digits after the point of a bounded number: those that its integer part leaves. */
const placesOf = (min: number, max: number): number =>
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

const fixed = (source: string): Terminal => bare(patternOf(source, '#', new Budget(), true) as Characters)

export const INTEGER: Terminal = fixed(`-?(0|[1-9][0-9]{0,${DIGITS - 1}})`)
export const NUMBER: Terminal = fixed(`-?(0|[1-9][0-9]{0,${DIGITS - 1}})(\\.[0-9]{1,${DIGITS}})?([eE][+-]?[0-9]{1,2})?`)

export type Bounds = { min: number; max: number; above: boolean; below: boolean; multipleOf: number }

/** `value` in units of 10^-places, rounded up or down where it lies between two. */
function scaled(value: number, places: number, up: boolean): bigint {
  const [mantissa = '0', exponent = '0'] = String(Math.abs(value)).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const digits = BigInt(whole + fraction)
  const shift = places + Number(exponent) - fraction.length
  const sign = value < 0 ? -1n : 1n
  if (shift >= 0) return sign * digits * 10n ** BigInt(Math.min(shift, 400))
  const unit = 10n ** BigInt(Math.min(-shift, 400))
  const [floor, rest] = [digits / unit, digits % unit !== 0n]
  const outward = rest && value < 0 !== up
  return sign * (floor + (outward ? 1n : 0n))
}

/** `digits`: the number of those before the point, or once it is there (`point`) of those behind. */
type Typed =
  | { at: 'sign' | 'first' }
  | { at: 'digits'; negative: boolean; value: bigint; digits: number; point: boolean }
/** Whatever follows, the bounds hold: `ends`: for each number of digits to come before the point, whether it may be that many. */
type Free = { at: 'free'; ends: string; residue: bigint }
type FreeFraction = { at: 'fraction'; left: number; ends: boolean }
type Place = Typed | Free | FreeFraction

/**
 * Null: no number is within. `whole`: integers. `multipleOf` is of integers, 1 for any. `spend` is told of work before it is done, and may throw.
 * A prefix of digits stands for intervals of numbers; where they lie all inside or all outside of the bounds, what the
 * digits were no longer matters, so that there are few states.
 */
export function numberBetween(
  { min, max, above, below, multipleOf }: Bounds,
  whole: boolean,
  spend: (work: number) => void,
): Terminal | null {
  const places = whole ? 0 : placesOf(min, max)
  const unit = 10n ** BigInt(places)
  const least = min === -Infinity ? -(10n ** 16n) * unit : scaled(min, places, true)
  const most = max === Infinity ? 10n ** 16n * unit : scaled(max, places, false)
  const low = above && scaled(min, places, false) === least ? least + 1n : least
  const high = below && scaled(max, places, true) === most ? most - 1n : most
  const step = BigInt(multipleOf)
  const longest = DIGITS - places

  /** Whether the magnitudes from `from` to `to` are all (1), none (0) or partly (-1) within. */
  const within = (negative: boolean, from: bigint, to: bigint): number => {
    const [a, b] = negative ? [-to, -from] : [from, to]
    return a >= low && b <= high ? 1 : b < low || a > high ? 0 : -1
  }

  const collapse = (place: Extract<Typed, { at: 'digits' }>): Place | null => {
    const { negative, value, digits, point } = place
    if (point) {
      const span = 10n ** BigInt(places - digits)
      const inside = within(negative, value * span, (value + 1n) * span - 1n)
      return inside === 0 ? null : inside === 1 ? { at: 'fraction', left: places - digits, ends: true } : place
    }
    let ends = ''
    for (let more = 0; more <= (value === 0n ? 0 : longest - digits); more++) {
      const span = 10n ** BigInt(more)
      const inside = within(negative, value * span * unit, (value + 1n) * span * unit - 1n)
      if (inside < 0) return place
      ends += inside
    }
    return { at: 'free', ends, residue: value % step }
  }

  const typed = (place: Extract<Typed, { at: 'digits' }>, byte: number): Place | null => {
    const { negative, value, digits, point } = place
    if (byte === POINT) return point || whole ? null : { at: 'digits', negative, value, digits: 0, point: true }
    const digit = byte - ZERO
    if (digit < 0 || digit > 9 || digits >= (point ? places : longest) || (!point && value === 0n)) return null
    return collapse({ at: 'digits', negative, value: value * 10n + BigInt(digit), digits: digits + 1, point })
  }

  const next = (place: Place, byte: number): Place | null => {
    const digit = byte - ZERO
    const isDigit = digit >= 0 && digit <= 9
    switch (place.at) {
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
        return typed(place, byte)
      case 'free':
        if (byte === POINT)
          return whole || !place.ends.startsWith('1') ? null : { at: 'fraction', left: places, ends: false }
        return isDigit && place.ends.length > 1
          ? { at: 'free', ends: place.ends.slice(1), residue: (place.residue * 10n + BigInt(digit)) % step }
          : null
      case 'fraction':
        return isDigit && place.left > 0 ? { at: 'fraction', left: place.left - 1, ends: true } : null
    }
  }

  const final = (place: Place): boolean => {
    if (place.at === 'free') return place.ends.startsWith('1') && place.residue === 0n
    if (place.at === 'fraction') return place.ends
    if (place.at !== 'digits' || (place.point && place.digits === 0)) return false
    const value = place.value * 10n ** BigInt(place.point ? places - place.digits : places)
    return within(place.negative, value, value) === 1 && place.value % step === 0n
  }

  return explored(
    new KeyedAutomaton<Place>({ at: 'sign' }, (place) => Object.values(place).join(' '), next, final),
    spend,
  )
}

const SYMBOLS = [MINUS, POINT, ...Array.from({ length: 10 }, (_, i) => ZERO + i)]

/** The same without what leads nowhere; null if that leaves nothing. */
function explored(terminal: Terminal, spend: (work: number) => void): Terminal | null {
  const into = new Map<number, number[]>()
  const states = new Set([terminal.start])
  for (const state of states) {
    spend(100)
    for (const symbol of SYMBOLS) {
      const to = terminal.next(state, symbol)
      if (to < 0) continue
      states.add(to)
      const from = into.get(to)
      if (from) from.push(state)
      else into.set(to, [state])
    }
  }
  const live = new Set<number>()
  const open = [...states].filter((state) => terminal.accepts(state))
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (live.has(state)) continue
    live.add(state)
    open.push(...(into.get(state) ?? []))
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
