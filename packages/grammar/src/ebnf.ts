/**
 * Writes a constraint as a grammar in the notation of llama.cpp (GBNF), xgrammar and llguidance (EBNF). It accepts the
 * same texts as the machine of constraint.ts, with tags as characters; in calls, strings of bounded length have `<` as
 * `\u003c`. Repetition of characters is a right-recursive rule, since xgrammar computes the token masks of such rules
 * in advance, and those after `*` at run time.
 */
import { InstarError } from '@instar/events/errors'
import { grammarOf, within, type Constraint } from './constraint.ts'
import type { Grammar, List, Members, Node, PlainText } from './grammar.ts'
import { Budget, tooLarge } from './schema-errors.ts'
import { stepsOf, without, type Span, type Steps } from './steps.ts'
import type { Terminal } from './terminal.ts'

const MAX_GRAMMAR_CHARACTERS = 256 * 1024
/** Maximum supported length of a string, as in characters.ts. */
const MAX_TEXT_LENGTH = 8192
/** Maximum number of characters that are counted by one rule each; xgrammar compiles such a rule in about 10 ms. */
const CHUNK = 32
/** Maximum nesting of the states of one terminal in a rule. */
const MAX_DEPTH = 40

/**
 * The EBNF of a constraint. `mayReason`: the answer may begin with reasoning. Call `keyOf` first, which checks the
 * size. Throws `bad_request` with field and keyword.
 */
export function ebnfOf(constraint: Constraint, mayReason: boolean): string {
  const budget = new Budget()
  const { grammar, root } = grammarOf(constraint, new Map(), mayReason, budget)
  return within(constraint.json?.field ?? 'tools', () => {
    if (!root.productive)
      throw new InstarError('bad_request', 'The schema allows no value, or none that can be generated.')
    return new Writer(grammar, budget).write(root)
  })
}

class Writer {
  private readonly grammar: Grammar
  private readonly budget: Budget
  private readonly rules: string[] = []
  private readonly ruleNames = new Set<string>()
  private readonly terminals = new Map<Terminal, string>()
  /** The rules for strings of any length, by `inCall`. */
  private readonly texts = new Map<boolean, string>()
  private readonly pending: (() => void)[] = []
  private length = 0

  constructor(grammar: Grammar, budget: Budget) {
    this.grammar = grammar
    this.budget = budget
  }

  write(root: Node): string {
    this.rule('root', () => this.of(root))
    for (let next = this.pending.pop(); next; next = this.pending.pop()) next()
    return this.rules.join('\n')
  }

  /** Returns the name of a rule. Its body is written later, so that rules do not nest. */
  private rule(name: string, body: () => string): string {
    if (this.ruleNames.has(name)) return name
    this.ruleNames.add(name)
    this.pending.push(() => {
      const rule = `${name} ::= ${body()}`
      this.length += rule.length
      if (this.length > MAX_GRAMMAR_CHARACTERS) throw tooLarge('its grammar')
      this.rules.push(rule)
    })
    return name
  }

  private of(node: Node): string {
    switch (node.kind) {
      case 'terminal':
        return node.text ? this.text(node.text, node.terminal) : this.terminal(node.terminal)
      case 'sequence':
        return node.parts.map((part) => this.of(part)).join(' ')
      case 'choice':
        return alternatives(node.parts.filter(({ productive }) => productive).map((part) => this.of(part)))
      case 'rule':
        return this.rule(`r${node.id}`, () => (node.body ? this.of(node.body) : EMPTY))
      case 'items':
        return this.rule(`r${node.id}`, () => this.items(node.list, node.at))
      case 'fields':
        return this.rule(`r${node.id}`, () => this.fields(node.object, node.at, node.hasPrevious))
    }
  }

  private items(list: List, at: number): string {
    const { first, rest, min, max, separator } = list
    const item = first[at]
    const before = at > 0 ? `${this.of(separator)} ` : ''
    if (item === undefined) {
      if (!rest?.productive || at >= max) return EMPTY
      if (before !== '') return repeat(`${before}${this.of(rest)}`, Math.max(0, min - at), max - at)
      const repeated = `${this.of(rest)} ${repeat(`${this.of(separator)} ${this.of(rest)}`, Math.max(0, min - 1), max - 1)}`
      return min > 0 ? repeated : alternatives([repeated, EMPTY])
    }
    const hasNext = item.productive && at < max
    const from = hasNext
      ? [`${before}${this.of(item)} ${this.rule(`r${list.separator.id}-${item.id}`, () => this.items(list, at + 1))}`]
      : []
    return alternatives([...from, ...(at >= min ? [EMPTY] : [])])
  }

  private fields(object: Members, at: number, hasPrevious: boolean): string {
    const { fields, extra, separator } = object
    const before = hasPrevious ? `${this.of(separator)} ` : ''
    const field = fields[at]
    if (field) {
      const next = (behindOne: boolean): string => this.of(this.grammar.fields(object, at + 1, behindOne))
      const taken = field.node.productive ? [`${before}${this.of(field.node)} ${next(true)}`] : []
      return alternatives([...taken, ...(field.required ? [] : [next(hasPrevious)])])
    }
    if (!extra?.productive) return EMPTY
    const more = `(${this.of(separator)} ${this.of(extra)})*`
    return hasPrevious ? more : alternatives([`${this.of(extra)} ${more}`, EMPTY])
  }

  private text({ min, max, inCall }: PlainText, terminal: Terminal): string {
    if (min === 0 && max === Infinity) {
      const ebnf = this.texts.get(inCall) ?? this.terminal(terminal)
      this.texts.set(inCall, ebnf)
      return ebnf
    }
    if (min > MAX_TEXT_LENGTH) throw tooLarge('minLength')
    const others = max === Infinity ? this.unlimited(inCall) : this.upTo(inCall, Math.min(max, MAX_TEXT_LENGTH) - min)
    const needed = [
      repeat(this.exactly(inCall, CHUNK), Math.floor(min / CHUNK), Math.floor(min / CHUNK)),
      this.exactly(inCall, min % CHUNK),
    ]
    return [QUOTE, ...needed.filter((part) => part !== EMPTY), others].join(' ')
  }

  /** Exactly `count` characters. All strings share the counting rules. */
  private exactly(inCall: boolean, count: number): string {
    return count === 0
      ? EMPTY
      : this.rule(`e${Number(inCall)}-${count}`, () =>
          character(inCall, count === 1 ? '' : this.exactly(inCall, count - 1)),
        )
  }

  /** At most `count` characters, then the closing quote. */
  private upTo(inCall: boolean, count: number): string {
    const chunks = Math.floor((count - CHUNK + 1) / CHUNK)
    if (chunks > 0)
      return `${repeat(this.exactly(inCall, CHUNK), 0, chunks)} ${this.upTo(inCall, count - chunks * CHUNK)}`
    return count <= 0
      ? QUOTE
      : this.rule(`u${Number(inCall)}-${count}`, () => `${QUOTE} | ${character(inCall, this.upTo(inCall, count - 1))}`)
  }

  private unlimited(inCall: boolean): string {
    return this.rule(`m${Number(inCall)}`, () => `${QUOTE} | ${character(inCall, `m${Number(inCall)}`)}`)
  }

  private terminal(terminal: Terminal): string {
    const existing = this.terminals.get(terminal)
    if (existing !== undefined) return existing
    const steps = stepsOf(terminal, (work) => this.budget.spend(work, 'its grammar'))
    const predecessorCounts = new Map<number, number>()
    for (const { to } of steps.values())
      for (const next of to.keys()) predecessorCounts.set(next, (predecessorCounts.get(next) ?? 0) + 1)
    const automaton: Automaton = {
      name: `t${this.terminals.size}`,
      steps,
      start: terminal.start,
      hasOnePredecessor: (state) => state !== terminal.start && predecessorCounts.get(state) === 1,
    }
    const whole = this.state(automaton, terminal.start, 0)
    // A literal is written in place, since a rule would not be shorter.
    const ebnf = /^"(?:[^"\\]|\\.)*"$/.test(whole) ? whole : this.rule(automaton.name, () => whole)
    this.terminals.set(terminal, ebnf)
    return ebnf
  }

  /** The alternatives from a state to an accepting one; empty if nothing may follow. */
  private state(automaton: Automaton, state: number, depth: number): string {
    const { steps, hasOnePredecessor } = automaton
    let word = ''
    for (let at = state; ;) {
      const { to, accepts } = steps.get(at) ?? NO_STEPS
      const [next, character] = singleStep(to)
      if (!accepts && character !== null && next !== at && hasOnePredecessor(next)) {
        word += escaped(character)
        at = next
        continue
      }
      const options = [...to].map(([next, spans]) =>
        `${classOf(spans)} ${this.continuationOf(automaton, next, depth)}`.trimEnd(),
      )
      const rest = options.length === 0 ? '' : alternatives([...options, ...(accepts ? [EMPTY] : [])])
      return [word === '' ? '' : `"${word}"`, rest].filter((part) => part !== '').join(' ')
    }
  }

  private continuationOf(automaton: Automaton, state: number, depth: number): string {
    const { name, start, steps, hasOnePredecessor } = automaton
    if (steps.get(state)?.to.size === 0) return ''
    if (hasOnePredecessor(state) && depth < MAX_DEPTH) return this.state(automaton, state, depth + 1)
    return this.rule(state === start ? name : `${name}-${state}`, () => this.state(automaton, state, 0))
  }
}

/** `alone`: the state has one predecessor, so it needs no rule. */
type Automaton = {
  name: string
  steps: ReadonlyMap<number, Steps>
  start: number
  hasOnePredecessor: (state: number) => boolean
}
const NO_STEPS: Steps = { to: new Map(), accepts: false }

/** The next state and the character if there is a single transition; else [-1, null]. */
function singleStep(to: Steps['to']): [number, number] | [-1, null] {
  const [[next, spans] = [-1, []], ...others] = to
  const [span] = spans
  return others.length === 0 && spans.length === 1 && span && span[0] === span[1] ? [next, span[0]] : [-1, null]
}

const EMPTY = '""'

const alternatives = (options: readonly string[]): string =>
  options.length === 1 ? (options[0] ?? EMPTY) : `(${options.join(' | ')})`

function repeat(what: string, min: number, max: number): string {
  if (max <= 0) return EMPTY
  if (max === Infinity) return `(${what})${min === 0 ? '*' : `{${min},}`}`
  return min === 1 && max === 1 ? what : `(${what}){${min},${max}}`
}

/**
 * A character escaped for all engines. The notations share few escapes, and only hexadecimal ones whose first digit is
 * not 0.
 */
function escaped(character: number): string {
  const text = String.fromCodePoint(character)
  if (text === '\n') return String.raw`\n`
  if (text === '\r') return String.raw`\r`
  if (text === '\t') return String.raw`\t`
  return /["\\]/.test(text)
    ? `\\${text}`
    : character >= 0x1000 && character <= 0xffff
      ? `\\u${character.toString(16)}`
      : text
}

const inClass = (character: number): string =>
  /[[\]]/.test(String.fromCodePoint(character)) ? `\\${String.fromCodePoint(character)}` : escaped(character)

/** `-` and `^` are special in a character class, so they are written outside of it. */
const SPECIAL_IN_CLASS = [0x2d, 0x5e]

function classOf(spans: readonly Span[]): string {
  const outside = SPECIAL_IN_CLASS.filter((one) => spans.some(([from, to]) => from === one || to === one))
  const inside = outside.reduce((left, one) => without(left, [one, one]), spans)
  const [only] = inside
  const single = inside.length === 1 && only?.[0] === only?.[1] && only ? [only[0]] : []
  const options = [...outside, ...single].map((one) => `"${escaped(one)}"`)
  if (inside.length > single.length)
    options.push(
      `[${inside.map(([from, to]) => (from === to ? inClass(from) : `${inClass(from)}-${inClass(to)}`)).join('')}]`,
    )
  return alternatives(options)
}

const QUOTE = String.raw`"\""`
/** The characters of JSON strings that need no escape: all but control characters, quote and backslash. */
const UNESCAPED = classOf([
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
])
const UNESCAPED_WITHOUT_LESS = classOf([
  [0x20, 0x21],
  [0x23, 0x3b],
  [0x3d, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
])

/** A character and its continuation in the same rule, so that engines can compute token masks in advance. */
const character = (inCall: boolean, rest: string): string =>
  String.raw`${inCall ? UNESCAPED_WITHOUT_LESS : UNESCAPED} ${rest} | "\\" (["\\/bfnrt] | "u00" [01] [0-9a-fA-F]${inCall ? ' | "u003" [cC]' : ''}) ${rest}`
    .replaceAll('  ', ' ')
    .trimEnd()
