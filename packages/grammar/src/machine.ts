/**
 * Follows a grammar symbol by symbol. A state is a set of threads, each a partly read terminal with what follows it.
 * From every state a word can be completed, since only productive nodes are entered.
 */
import { InstarError } from '@instar/events/errors'
import type { Grammar, Node } from './grammar.ts'
import type { Terminal } from './terminal.ts'

type Rest = { id: number; node: Node; rest: Rest | null } | null
type Thread = { node: Node; terminal: Terminal; at: number; rest: Rest }

/** `ends`: the input so far is a word. `next`: computed transitions by symbol. */
export type State = {
  readonly threads: readonly Thread[]
  readonly ends: boolean
  readonly next: Map<number, State | null>
}

/** Limit of threads in a state; the words of further threads are not generated. */
const MAX_THREADS = 128
/** States in the cache. */
const MAX_STATES = 4000

export class Machine {
  readonly start: State
  /** Threads moved and nodes expanded so far: the unit of work. */
  work = 0
  private readonly grammar: Grammar
  private states = new Map<string, State>()
  private rests = new Map<string, Exclude<Rest, null>>()
  private restCount = 0

  constructor(grammar: Grammar, root: Node) {
    this.grammar = grammar
    if (!root.productive)
      throw new InstarError('bad_request', 'The schema allows no value at all, or none that can be written here.')
    this.start = this.close((closure) => {
      closure.expand(root, null)
    })
  }

  /** Null: no word continues with this symbol. */
  step(state: State, symbol: number): State | null {
    const known = state.next.get(symbol)
    if (known !== undefined) return known
    this.work += state.threads.length
    const moved: Thread[] = []
    for (const { node, terminal, at, rest } of state.threads) {
      const to = terminal.next(at, symbol)
      if (to >= 0) moved.push({ node, terminal, at: to, rest })
    }
    const next =
      moved.length === 0
        ? null
        : this.close((closure) => {
            for (const thread of moved) closure.add(thread)
          })
    state.next.set(symbol, next)
    return next
  }

  push(node: Node, rest: Rest): Rest {
    const key = `${node.id} ${rest?.id ?? -1}`
    let known = this.rests.get(key)
    if (!known) {
      known = { id: this.restCount++, node, rest }
      this.rests.set(key, known)
    }
    return known
  }

  private close(fill: (closure: Closure) => void): State {
    const closure = new Closure(this, this.grammar)
    fill(closure)
    const { threads, ends, expanded } = closure
    this.work += threads.length + expanded
    const key = `${ends ? '!' : ''}${threads.map(({ node, at, rest }) => `${node.id}.${at}.${rest?.id ?? -1}`).join(' ')}`
    let state = this.states.get(key)
    if (state) return state
    if (this.states.size >= MAX_STATES) {
      // Else states in use would keep the whole cache alive.
      for (const { next } of this.states.values()) next.clear()
      this.states = new Map()
      this.rests = new Map()
    }
    state = { threads, ends, next: new Map() }
    this.states.set(key, state)
    return state
  }
}

/** The threads reached without reading a symbol. */
class Closure {
  readonly threads: Thread[] = []
  ends = false
  /** Nodes that were expanded. */
  expanded = 0
  private readonly machine: Machine
  private readonly grammar: Grammar
  private readonly seen = new Set<string>()

  constructor(machine: Machine, grammar: Grammar) {
    this.machine = machine
    this.grammar = grammar
  }

  add(thread: Thread): void {
    const { node, terminal, at, rest } = thread
    if (!this.isNew(`${node.id}.${at}.${rest?.id ?? -1}`)) return
    // A thread whose terminal has no continuation is replaced by what follows it.
    if (this.threads.length < MAX_THREADS) this.threads.push(thread)
    if (!terminal.accepts(at)) return
    if (rest === null) this.ends = true
    else this.expand(rest.node, rest.rest)
  }

  /** Nodes beyond the limit of threads are not expanded: the product of nested alternatives has no limit of its own. */
  expand(node: Node, rest: Rest): void {
    if (!node.productive || this.threads.length >= MAX_THREADS) return
    this.expanded += 1
    if (node.kind === 'terminal') return this.add({ node, terminal: node.terminal, at: node.terminal.start, rest })
    if (!this.isNew(`${node.id}/${rest?.id ?? -1}`)) return
    switch (node.kind) {
      case 'sequence':
        return this.follow(node.parts, rest)
      case 'choice':
        for (const part of node.parts) this.expand(part, rest)
        return
      case 'rule':
        if (node.body) this.expand(node.body, rest)
        return
      case 'items':
        return this.items(node, rest)
      case 'fields':
        return this.fields(node, rest)
    }
  }

  private isNew(key: string): boolean {
    if (this.seen.has(key)) return false
    this.seen.add(key)
    return true
  }

  private follow(parts: readonly Node[], rest: Rest): void {
    const [first, ...others] = parts
    if (!first) return this.resume(rest)
    this.expand(
      first,
      others.reduceRight((behind: Rest, part) => this.machine.push(part, behind), rest),
    )
  }

  private resume(rest: Rest): void {
    if (rest === null) this.ends = true
    else this.expand(rest.node, rest.rest)
  }

  private items({ list, at }: Extract<Node, { kind: 'items' }>, rest: Rest): void {
    if (at >= list.min) this.resume(rest)
    const item = list.first[at] ?? list.rest
    if (at >= list.max || !item?.productive) return
    this.follow([...(at > 0 ? [list.separator] : []), item, this.grammar.items(list, at + 1)], rest)
  }

  private fields({ object, at, some }: Extract<Node, { kind: 'fields' }>, rest: Rest): void {
    const before = some ? [object.separator] : []
    for (const [i, { node, required }] of object.fields.entries()) {
      if (i < at) continue
      if (node.productive) this.follow([...before, node, this.grammar.fields(object, i + 1, true)], rest)
      if (required) return
    }
    if (object.extra?.productive)
      this.follow([...before, object.extra, this.grammar.fields(object, object.fields.length, true)], rest)
    this.resume(rest)
  }
}
