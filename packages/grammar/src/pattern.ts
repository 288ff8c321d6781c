/** Compiles a `pattern` to a deterministic automaton, by Thompson's construction and the subset construction. */
import { cutsOf, isSurrogate, trimmed, type CharacterAutomaton } from './characters.ts'
import { parsePattern, type Pattern, type Range } from './pattern-syntax.ts'
import { tooLarge, type Budget } from './schema-errors.ts'

/** `epsilon`: empty transitions; those with `only` apply at the start or end of the text only. `on`: by character. */
type NfaState = {
  epsilon: { to: number; only: 'start' | 'end' | null }[]
  on: { ranges: readonly Range[]; to: number }[]
}

const MAX_STATES = 4000
const MAX_SOURCE_LENGTH = 2000

const ALL: readonly Range[] = [[0, 0x110000]]

class NfaBuilder {
  readonly states: NfaState[] = []

  add(): number {
    if (this.states.length >= MAX_STATES) throw tooLarge('pattern')
    return this.states.push({ epsilon: [], on: [] }) - 1
  }

  link(from: number, to: number, only: 'start' | 'end' | null = null): void {
    this.states[from]?.epsilon.push({ to, only })
  }

  on(from: number, ranges: readonly Range[], to: number): void {
    this.states[from]?.on.push({ ranges, to })
  }

  /** Adds a part after state `from`; returns the state after it. */
  build(pattern: Pattern, from: number): number {
    switch (pattern.type) {
      case 'set': {
        const to = this.add()
        this.on(from, pattern.ranges, to)
        return to
      }
      case 'anchor': {
        const to = this.add()
        this.link(from, to, pattern.of)
        return to
      }
      case 'sequence':
        return pattern.parts.reduce((at, part) => this.build(part, at), from)
      case 'alternation': {
        const to = this.add()
        for (const part of pattern.parts) {
          const begin = this.add()
          this.link(from, begin)
          this.link(this.build(part, begin), to)
        }
        return to
      }
      case 'repetition':
        return this.times(pattern.part, pattern.min, pattern.max, from)
    }
  }

  private times(part: Pattern, min: number, max: number, from: number): number {
    let at = from
    for (let i = 0; i < min; i++) at = this.build(part, at)
    if (max === Infinity) {
      const loop = this.add()
      this.link(at, loop)
      this.link(this.build(part, loop), loop)
      const to = this.add()
      this.link(loop, to)
      return to
    }
    const to = this.add()
    for (let i = min; i < max; i++) {
      this.link(at, to)
      at = this.build(part, at)
    }
    this.link(at, to)
    return to
  }
}

/**
 * The texts that contain a match, as in JSON Schema, or that match entirely (`whole`). Null if there are none. Throws
 * `bad_request` if the pattern is invalid, not supported or too large.
 */
export function patternOf(source: string, where: string, budget: Budget, whole = false): CharacterAutomaton | null {
  if (source.length > MAX_SOURCE_LENGTH) throw tooLarge('pattern')
  const machine = new NfaBuilder()
  const start = machine.add()
  if (!whole) machine.on(start, ALL, start)
  const end = machine.build(parsePattern(source, where), start)
  if (!whole) machine.on(end, ALL, end)
  return trimmed(subsetConstruction(machine.states, start, end, budget))
}

function subsetConstruction(
  states: readonly NfaState[],
  start: number,
  end: number,
  budget: Budget,
): CharacterAutomaton {
  const cuts = cutsOf(states.flatMap(({ on }) => on.flatMap(({ ranges }) => ranges.flat())))
  const closure = (from: Iterable<number>, edges: readonly ('start' | 'end')[]): number[] => {
    const seen = new Set(from)
    for (const at of seen)
      for (const { to, only } of states[at]?.epsilon ?? []) if (only === null || edges.includes(only)) seen.add(to)
    budget.spend(4 * seen.size, 'pattern')
    return [...seen].sort((a, b) => a - b)
  }
  const sets = [closure([start], ['start'])]
  const ids = new Map([[sets[0]!.join(','), 0]])
  const table: Int32Array[] = []
  for (let at = 0; at < sets.length; at++) {
    budget.spend(4 * cuts.length, 'pattern')
    const edges = sets[at]!.flatMap((state) => states[state]?.on ?? [])
    table.push(
      Int32Array.from(cuts, (cut) => {
        if (isSurrogate(cut)) return -1
        budget.spend(edges.length, 'pattern')
        const reached = edges
          .filter(({ ranges }) => ranges.some(([low, high]) => low <= cut && cut < high))
          .map(({ to }) => to)
        if (reached.length === 0) return -1
        const set = closure(reached, [])
        const key = set.join(',')
        let id = ids.get(key)
        if (id === undefined) {
          id = sets.length
          ids.set(key, id)
          sets.push(set)
        }
        return id
      }),
    )
  }
  return {
    cuts,
    table,
    accepts: sets.map((set, at) => closure(set, at === 0 ? ['start', 'end'] : ['end']).includes(end)),
  }
}
