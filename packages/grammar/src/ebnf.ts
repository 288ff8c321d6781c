/**
 * A constraint as text, in the notation that llama.cpp calls GBNF and xgrammar and llguidance call EBNF. It accepts what
 * the machine of constraint.ts accepts, with tags spelled as characters; in calls, texts of bounded length have `<` as
 * `\u003c`. Repetition is a right-recursive rule: xgrammar computes the tokens of such a rule in advance, and those after
 * `*` at run time.
 */
import { InstarError } from '@instar/events/errors'
import { grammarOf, within, type Constraint } from './constraint.ts'
import type { Grammar, List, Members, Node, PlainText } from './grammar.ts'
import { Budget, tooLarge } from './refusal.ts'
import { stepsOf, without, type Span, type Steps } from './steps.ts'
import type { Terminal } from './terminal.ts'

const GRAMMAR_BYTES_MAX = 256 * 1024
/** The largest length of a text, as in characters.ts. */
const LONGEST = 8192
/** Characters counted one by one: xgrammar takes about 10 ms for each, once. */
const CHUNK = 32
/** Nesting of the states of one terminal. */
const MAX_DEPTH = 40

/** `thinks`: the answer may begin with reasoning. Call `keyOf` first, which checks the size. Throws `bad_request` naming field and keyword. */
export function ebnfOf(constraint: Constraint, thinks: boolean): string {
  const budget = new Budget()
  const { grammar, root } = grammarOf(constraint, new Map(), thinks, budget)
  return within(constraint.json?.field ?? 'tools', () => {
    if (!root.productive)
      throw new InstarError('bad_request', 'The schema allows no value at all, or none that can be written here.')
    return new Writer(grammar, budget).write(root)
  })
}

class Writer {
  private readonly grammar: Grammar
  private readonly budget: Budget
  private readonly rules: string[] = []
  private readonly named = new Set<string>()
  private readonly terminals = new Map<Terminal, string>()
  /** Rules for texts of any length, in calls and elsewhere. */
  private readonly texts = new Map<boolean, string>()
  private readonly open: (() => void)[] = []
  private length = 0

  constructor(grammar: Grammar, budget: Budget) {
    this.grammar = grammar
    this.budget = budget
  }

  write(root: Node): string {
    this.rule('root', () => this.of(root))
    for (let next = this.open.pop(); next; next = this.open.pop()) next()
    return this.rules.join('\n')
  }

  /** Returns the name of a rule whose body is written later: bodies are queued, not nested. */
  private rule(name: string, body: () => string): string {
    if (this.named.has(name)) return name
    this.named.add(name)
    this.open.push(() => {
      const rule = `${name} ::= ${body()}`
      this.length += rule.length
      if (this.length > GRAMMAR_BYTES_MAX) throw tooLarge('it')
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
        return either(node.parts.filter(({ productive }) => productive).map((part) => this.of(part)))
      case 'rule':
        return this.rule(`r${node.id}`, () => (node.body ? this.of(node.body) : NOTHING))
      case 'items':
        return this.rule(`r${node.id}`, () => this.items(node.list, node.at))
      case 'fields':
        return this.rule(`r${node.id}`, () => this.fields(node.object, node.at, node.some))
    }
  }

  private items(list: List, at: number): string {
    const { first, rest, min, max, separator } = list
    const item = first[at]
    const before = at > 0 ? `${this.of(separator)} ` : ''
    if (item === undefined) {
      if (!rest?.productive || at >= max) return NOTHING
      if (before !== '') return times(`${before}${this.of(rest)}`, Math.max(0, min - at), max - at)
      const some = `${this.of(rest)} ${times(`${this.of(separator)} ${this.of(rest)}`, Math.max(0, min - 1), max - 1)}`
      return min > 0 ? some : either([some, NOTHING])
    }
    const goesOn = item.productive && at < max
    const from = goesOn
      ? [`${before}${this.of(item)} ${this.rule(`r${list.separator.id}-${item.id}`, () => this.items(list, at + 1))}`]
      : []
    return either([...from, ...(at >= min ? [NOTHING] : [])])
  }

  private fields(object: Members, at: number, some: boolean): string {
    const { fields, extra, separator } = object
    const before = some ? `${this.of(separator)} ` : ''
    const field = fields[at]
    if (field) {
      const next = (behindOne: boolean): string => this.of(this.grammar.fields(object, at + 1, behindOne))
      const taken = field.node.productive ? [`${before}${this.of(field.node)} ${next(true)}`] : []
      return either([...taken, ...(field.required ? [] : [next(some)])])
    }
    if (!extra?.productive) return NOTHING
    const more = `(${this.of(separator)} ${this.of(extra)})*`
    return some ? more : either([`${this.of(extra)} ${more}`, NOTHING])
  }

  private text({ min, max, inCall }: PlainText, terminal: Terminal): string {
    if (min === 0 && max === Infinity) {
      const written = this.texts.get(inCall) ?? this.terminal(terminal)
      this.texts.set(inCall, written)
      return written
    }
    if (min > LONGEST) throw tooLarge('minLength')
    const others = max === Infinity ? this.anyMore(inCall) : this.upTo(inCall, Math.min(max, LONGEST) - min)
    const needed = [
      times(this.exactly(inCall, CHUNK), Math.floor(min / CHUNK), Math.floor(min / CHUNK)),
      this.exactly(inCall, min % CHUNK),
    ]
    return [QUOTE, ...needed.filter((part) => part !== NOTHING), others].join(' ')
  }

  /** Exactly `count` characters; all texts share the counting rules. */
  private exactly(inCall: boolean, count: number): string {
    return count === 0
      ? NOTHING
      : this.rule(`e${Number(inCall)}-${count}`, () =>
          character(inCall, count === 1 ? '' : this.exactly(inCall, count - 1)),
        )
  }

  /** At most so many characters, then the end. */
  private upTo(inCall: boolean, count: number): string {
    const chunks = Math.floor((count - CHUNK + 1) / CHUNK)
    if (chunks > 0)
      return `${times(this.exactly(inCall, CHUNK), 0, chunks)} ${this.upTo(inCall, count - chunks * CHUNK)}`
    return count <= 0
      ? QUOTE
      : this.rule(`u${Number(inCall)}-${count}`, () => `${QUOTE} | ${character(inCall, this.upTo(inCall, count - 1))}`)
  }

  private anyMore(inCall: boolean): string {
    return this.rule(`m${Number(inCall)}`, () => `${QUOTE} | ${character(inCall, `m${Number(inCall)}`)}`)
  }

  private terminal(terminal: Terminal): string {
    const known = this.terminals.get(terminal)
    if (known !== undefined) return known
    const steps = stepsOf(terminal, (work) => this.budget.spend(work, 'it'))
    const into = new Map<number, number>()
    for (const { to } of steps.values()) for (const next of to.keys()) into.set(next, (into.get(next) ?? 0) + 1)
    const automaton: Automaton = {
      name: `t${this.terminals.size}`,
      steps,
      start: terminal.start,
      alone: (state) => state !== terminal.start && into.get(state) === 1,
    }
    const whole = this.state(automaton, terminal.start, 0)
    // A literal is as short as the name of a rule.
    const written = /^"(?:[^"\\]|\\.)*"$/.test(whole) ? whole : this.rule(automaton.name, () => whole)
    this.terminals.set(terminal, written)
    return written
  }

  /** The alternatives from a state to an end; empty if nothing may follow. */
  private state(automaton: Automaton, state: number, depth: number): string {
    const { steps, alone } = automaton
    let word = ''
    for (let at = state; ;) {
      const { to, accepts } = steps.get(at) ?? NO_STEPS
      const [next, character] = onlyStep(to)
      if (!accepts && character !== null && next !== at && alone(next)) {
        word += escaped(character)
        at = next
        continue
      }
      const ways = [...to].map(([next, spans]) => `${classOf(spans)} ${this.behind(automaton, next, depth)}`.trimEnd())
      const rest = ways.length === 0 ? '' : either([...ways, ...(accepts ? [NOTHING] : [])])
      return [word === '' ? '' : `"${word}"`, rest].filter((part) => part !== '').join(' ')
    }
  }

  private behind(automaton: Automaton, state: number, depth: number): string {
    const { name, start, steps, alone } = automaton
    if (steps.get(state)?.to.size === 0) return ''
    if (alone(state) && depth < MAX_DEPTH) return this.state(automaton, state, depth + 1)
    return this.rule(state === start ? name : `${name}-${state}`, () => this.state(automaton, state, 0))
  }
}

/** `alone`: the state has one predecessor, so it needs no rule. */
type Automaton = { name: string; steps: ReadonlyMap<number, Steps>; start: number; alone: (state: number) => boolean }
const NO_STEPS: Steps = { to: new Map(), accepts: false }

/** The next state and the character if there is one way on; else null. */
function onlyStep(to: Steps['to']): [number, number] | [-1, null] {
  const [[next, spans] = [-1, []], ...others] = to
  const [span] = spans
  return others.length === 0 && spans.length === 1 && span && span[0] === span[1] ? [next, span[0]] : [-1, null]
}

const NOTHING = '""'

const either = (ways: readonly string[]): string => (ways.length === 1 ? (ways[0] ?? NOTHING) : `(${ways.join(' | ')})`)

function times(what: string, min: number, max: number): string {
  if (max <= 0) return NOTHING
  if (max === Infinity) return `(${what})${min === 0 ? '*' : `{${min},}`}`
  return min === 1 && max === 1 ? what : `(${what}){${min},${max}}`
}

/**
 * Escaped so that all notations read it: they share few escapes, and of the hexadecimal ones only those whose first
 * digit is not 0.
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

/** These are special in a character class, so they are written outside of it. */
const BESIDE = [0x2d, 0x5e]

function classOf(spans: readonly Span[]): string {
  const alone = BESIDE.filter((one) => spans.some(([from, to]) => from === one || to === one))
  const inside = alone.reduce((left, one) => without(left, [one, one]), spans)
  const [only] = inside
  const single = inside.length === 1 && only?.[0] === only?.[1] && only ? [only[0]] : []
  const ways = [...alone, ...single].map((one) => `"${escaped(one)}"`)
  if (inside.length > single.length)
    ways.push(
      `[${inside.map(([from, to]) => (from === to ? inClass(from) : `${inClass(from)}-${inClass(to)}`)).join('')}]`,
    )
  return either(ways)
}

const QUOTE = String.raw`"\""`
/** Control characters, quote and backslash are escaped. */
const PLAIN = classOf([
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
])
const PLAIN_BUT_LESS = classOf([
  [0x20, 0x21],
  [0x23, 0x3b],
  [0x3d, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
])

/** An alternative with its continuation in the same rule, so that engines can compute its tokens in advance. */
const character = (inCall: boolean, rest: string): string =>
  String.raw`${inCall ? PLAIN_BUT_LESS : PLAIN} ${rest} | "\\" (["\\/bfnrt] | "u00" [01] [0-9a-fA-F]${inCall ? ' | "u003" [cC]' : ''}) ${rest}`
    .replaceAll('  ', ' ')
    .trimEnd()
