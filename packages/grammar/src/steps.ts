/** Transitions of a terminal over bytes, converted to characters, as text grammars need them. */
import { END_OF_UNICODE } from './characters.ts'
import type { Terminal } from './terminal.ts'

/** From the first to the last character. */
export type Span = readonly [number, number]

/** `to`: next state → the characters that lead there, in order. */
export type Steps = { to: ReadonlyMap<number, readonly Span[]>; accepts: boolean }

/** UTF-8 lead bytes: first and last, payload bits, number of following bytes, smallest character. */
const LEADS = [
  { first: 0x00, last: 0x7f, mask: 0x7f, more: 0, least: 0 },
  { first: 0xc2, last: 0xdf, mask: 0x1f, more: 1, least: 0x80 },
  { first: 0xe0, last: 0xef, mask: 0x0f, more: 2, least: 0x800 },
  { first: 0xf0, last: 0xf4, mask: 0x07, more: 3, least: 0x10000 },
] as const

const BYTES = Array.from({ length: 256 }, (_, byte) => byte)

/** Not written: surrogates, and controls other than tab and line ends. */
const UNWRITTEN: readonly Span[] = [
  [0x00, 0x08],
  [0x0b, 0x0c],
  [0x0e, 0x1f],
  [0xd800, 0xdfff],
]

/** Fixed cost of a state. */
const STATE = 30

type Target = { from: number; upTo: number; to: number }

/** The transitions of all reachable states. `spend` is called with the work to come, and may throw. */
export function stepsOf(terminal: Terminal, spend: (work: number) => void): Map<number, Steps> {
  /** By state and number of missing bytes: where the rest of a character leads. */
  const known = new Map<string, readonly Target[]>()

  const may = (state: number): readonly number[] =>
    terminal.symbols ? [...terminal.symbols(state)].filter((symbol) => symbol < 256).sort((a, b) => a - b) : BYTES

  const behind = (state: number, more: number): readonly Target[] => {
    if (more === 0) return [{ from: 0, upTo: 0, to: state }]
    const key = `${state}.${more}`
    const before = known.get(key)
    if (before) return before
    const targets: Target[] = []
    const bytes = may(state)
    spend(bytes.length)
    for (const byte of bytes) {
      const next = (byte & 0xc0) === 0x80 ? terminal.next(state, byte) : -1
      if (next >= 0)
        for (const one of behind(next, more - 1)) add(targets, shifted(one, (byte & 0x3f) << (6 * (more - 1))))
    }
    known.set(key, targets)
    return targets
  }

  const reached = new Map<number, Steps>()
  const states = new Set([terminal.start])
  for (const state of states) {
    const targets: Target[] = []
    const bytes = may(state)
    spend(STATE + bytes.length)
    for (const byte of bytes) {
      const lead = LEADS.find(({ first, last }) => byte >= first && byte <= last)
      const next = lead ? terminal.next(state, byte) : -1
      if (lead && next >= 0)
        for (const one of behind(next, lead.more))
          for (const valid of characters(shifted(one, (byte & lead.mask) << (6 * lead.more)), lead.least))
            add(targets, valid)
    }
    const to = new Map<number, Span[]>()
    for (const { from, upTo, to: next } of targets) {
      const spans = to.get(next)
      if (spans) spans.push([from, upTo])
      else to.set(next, [[from, upTo]])
      states.add(next)
    }
    reached.set(state, { to, accepts: terminal.accepts(state) })
  }
  return reached
}

const shifted = ({ from, upTo, to }: Target, by: number): Target => ({ from: from + by, upTo: upTo + by, to })

/** Without the characters that are not written. */
const characters = ({ from, upTo, to }: Target, least: number): Target[] =>
  UNWRITTEN.reduce<readonly Span[]>(without, [[Math.max(from, least), Math.min(upTo, END_OF_UNICODE - 1)]]).map(
    ([low, high]) => ({ from: low, upTo: high, to }),
  )

export const without = (spans: readonly Span[], [first, last]: Span): readonly Span[] =>
  spans.flatMap(([from, to]) =>
    (
      [
        [from, Math.min(to, first - 1)],
        [Math.max(from, last + 1), to],
      ] as const
    ).filter(([low, high]) => low <= high),
  )

/** Extends the last span if it is adjacent. */
function add(targets: Target[], one: Target): void {
  const last = targets.at(-1)
  if (last?.to === one.to && last.upTo + 1 === one.from) last.upTo = one.upTo
  else targets.push({ ...one })
}
