/** Converts the transitions of a terminal from bytes to characters, for grammars as text. */
import { END_OF_UNICODE } from './characters.ts'
import type { Terminal } from './terminal.ts'

/** Code points from the first to the last, inclusive. */
export type Span = readonly [number, number]

/** `to`: next state → the characters of the transition, in order. */
export type Steps = { to: ReadonlyMap<number, readonly Span[]>; accepts: boolean }

/**
 * UTF-8 lead bytes (RFC 3629): first and last, mask of the payload, number of continuation bytes, smallest code point.
 */
const LEADS = [
  { first: 0x00, last: 0x7f, mask: 0x7f, continuationBytes: 0, min: 0 },
  { first: 0xc2, last: 0xdf, mask: 0x1f, continuationBytes: 1, min: 0x80 },
  { first: 0xe0, last: 0xef, mask: 0x0f, continuationBytes: 2, min: 0x800 },
  { first: 0xf0, last: 0xf4, mask: 0x07, continuationBytes: 3, min: 0x10000 },
] as const

const BYTES = Array.from({ length: 256 }, (_, byte) => byte)

/** Characters that are not written: surrogates, and controls other than tab and line ends. */
const EXCLUDED: readonly Span[] = [
  [0x00, 0x08],
  [0x0b, 0x0c],
  [0x0e, 0x1f],
  [0xd800, 0xdfff],
]

/** Work of a state besides its transitions. */
const STATE_WORK = 30

type Target = { from: number; last: number; to: number }

/** The transitions of all reachable states. `spend` is called before work is done, and may throw. */
export function stepsOf(terminal: Terminal, spend: (work: number) => void): Map<number, Steps> {
  /** The targets of the rest of a character, by state and number of missing bytes. */
  const continuationCache = new Map<string, readonly Target[]>()

  const possibleBytes = (state: number): readonly number[] =>
    terminal.symbols ? [...terminal.symbols(state)].filter((symbol) => symbol < 256).sort((a, b) => a - b) : BYTES

  const continuations = (state: number, continuationBytes: number): readonly Target[] => {
    if (continuationBytes === 0) return [{ from: 0, last: 0, to: state }]
    const key = `${state}.${continuationBytes}`
    const before = continuationCache.get(key)
    if (before) return before
    const targets: Target[] = []
    const bytes = possibleBytes(state)
    spend(bytes.length)
    for (const byte of bytes) {
      const next = (byte & 0xc0) === 0x80 ? terminal.next(state, byte) : -1
      if (next >= 0)
        for (const one of continuations(next, continuationBytes - 1))
          add(targets, shifted(one, (byte & 0x3f) << (6 * (continuationBytes - 1))))
    }
    continuationCache.set(key, targets)
    return targets
  }

  const reached = new Map<number, Steps>()
  const states = new Set([terminal.start])
  for (const state of states) {
    const targets: Target[] = []
    const bytes = possibleBytes(state)
    spend(STATE_WORK + bytes.length)
    for (const byte of bytes) {
      const lead = LEADS.find(({ first, last }) => byte >= first && byte <= last)
      const next = lead ? terminal.next(state, byte) : -1
      if (lead && next >= 0)
        for (const one of continuations(next, lead.continuationBytes))
          for (const valid of characters(shifted(one, (byte & lead.mask) << (6 * lead.continuationBytes)), lead.min))
            add(targets, valid)
    }
    const to = new Map<number, Span[]>()
    for (const { from, last, to: next } of targets) {
      const spans = to.get(next)
      if (spans) spans.push([from, last])
      else to.set(next, [[from, last]])
      states.add(next)
    }
    reached.set(state, { to, accepts: terminal.accepts(state) })
  }
  return reached
}

const shifted = ({ from, last, to }: Target, by: number): Target => ({ from: from + by, last: last + by, to })

/** Splits a target around the excluded characters. */
const characters = ({ from, last, to }: Target, min: number): Target[] =>
  EXCLUDED.reduce<readonly Span[]>(without, [[Math.max(from, min), Math.min(last, END_OF_UNICODE - 1)]]).map(
    ([low, high]) => ({ from: low, last: high, to }),
  )

/** The spans without the characters from `first` to `last`. */
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
  if (last?.to === one.to && last.last + 1 === one.from) last.last = one.last
  else targets.push({ ...one })
}
