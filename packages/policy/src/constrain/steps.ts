/** A terminal over bytes, read as one over characters: how a grammar that is text has to say it. */
import { END_OF_UNICODE } from './characters.ts'
import type { Terminal } from './terminal.ts'

/** From the first to the last character, surrogates are none. */
export type Span = readonly [number, number]

/** `to`: the next state → the characters that lead there, in their order. */
export type Steps = { to: ReadonlyMap<number, readonly Span[]>; accepts: boolean }

/** Lead bytes: the first and last, the bits that they hold, bytes to follow, and the smallest character they may begin. */
const LEADS = [
  { first: 0x00, last: 0x7f, mask: 0x7f, more: 0, least: 0 },
  { first: 0xc2, last: 0xdf, mask: 0x1f, more: 1, least: 0x80 },
  { first: 0xe0, last: 0xef, mask: 0x0f, more: 2, least: 0x800 },
  { first: 0xf0, last: 0xf4, mask: 0x07, more: 3, least: 0x10000 },
] as const

const SURROGATES: Span = [0xd800, 0xdfff]

type Target = { from: number; upTo: number; to: number }

/** By state, all that are reached from the start. `spend` is told of work, and may throw. */
export function stepsOf(terminal: Terminal, spend: (work: number) => void): Map<number, Steps> {
  /** By state and bytes to follow, what the rest of a character leads to. */
  const known = new Map<string, readonly Target[]>()

  const behind = (state: number, more: number): readonly Target[] => {
    if (more === 0) return [{ from: 0, upTo: 0, to: state }]
    const key = `${state}.${more}`
    const before = known.get(key)
    if (before) return before
    spend(64)
    const targets: Target[] = []
    for (let bits = 0; bits < 64; bits++) {
      const next = terminal.next(state, 0x80 | bits)
      if (next >= 0) for (const one of behind(next, more - 1)) add(targets, shifted(one, bits << (6 * (more - 1))))
    }
    known.set(key, targets)
    return targets
  }

  const reached = new Map<number, Steps>()
  const states = new Set([terminal.start])
  for (const state of states) {
    spend(256)
    const targets: Target[] = []
    for (const { first, last, mask, more, least } of LEADS) {
      for (let lead = first; lead <= last; lead++) {
        const next = terminal.next(state, lead)
        if (next >= 0) for (const one of behind(next, more)) for (const valid of characters(shifted(one, (lead & mask) << (6 * more)), least)) add(targets, valid)
      }
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

/** Those of them that are characters. */
function characters({ from, upTo, to }: Target, least: number): Target[] {
  const spans: Span[] = [[Math.max(from, least), Math.min(upTo, SURROGATES[0] - 1)], [Math.max(from, least, SURROGATES[1] + 1), Math.min(upTo, END_OF_UNICODE - 1)]]
  return spans.flatMap(([low, high]) => (low <= high ? [{ from: low, upTo: high, to }] : []))
}

/** One span where the last goes on. */
function add(targets: Target[], one: Target): void {
  const last = targets.at(-1)
  if (last?.to === one.to && last.upTo + 1 === one.from) last.upTo = one.upTo
  else targets.push({ ...one })
}
