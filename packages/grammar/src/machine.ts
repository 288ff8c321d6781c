/**
 * Runs a grammar symbol by symbol. A state is a set of threads: positions in a terminal with a continuation (the nodes
 * after it). From every state a word can be completed, since only productive nodes are entered.
 */
import { InstarError } from '@instar/events/errors'
import type { Grammar, Node } from './grammar.ts'
import type { Terminal } from './terminal.ts'

type Continuation = { id: number; node: Node; rest: Continuation | null } | null
type Thread = { node: Node; terminal: Terminal; at: number; rest: Continuation }

/** `accepts`: the input so far is a word. `next`: the transitions computed so far, by symbol. */
export type State = {
  readonly threads: readonly Thread[]
  readonly accepts: boolean
  readonly next: Map<number, State | null>
}

/** Maximum number of threads of a state; words of further threads are not generated. */
const MAX_THREADS = 128
/** Maximum number of cached states. */
const MAX_STATES = 4000

export class Machine {
  readonly start: State
  /** The work so far: threads advanced and nodes expanded. */
  work = 0
  private readonly grammar: Grammar
  private states = new Map<string, State>()
  private continuations = new Map<string, Exclude<Continuation, null>>()
  private continuationCount = 0

  constructor(grammar: Grammar, root: Node) {
    this.grammar = grammar
    if (!root.productive)
      throw new InstarError('bad_request', 'The schema allows no value, or none that can be generated.')
    this.start = this.closureState((closure) => {
      closure.expand(root, null)
    })
  }

  /** The state after a symbol; null if no word continues with it. */
  step(state: State, symbol: number): State | null {
    const existing = state.next.get(symbol)
    if (existing !== undefined) return existing
    this.work += state.threads.length
    const advanced: Thread[] = []
    for (const { node, terminal, at, rest } of state.threads) {
      const to = terminal.next(at, symbol)
      if (to >= 0) advanced.push({ node, terminal, at: to, rest })
    }
    const next =
      advanced.length === 0
        ? null
        : this.closureState((closure) => {
            for (const thread of advanced) closure.add(thread)
          })
    state.next.set(symbol, next)
    return next
  }

  push(node: Node, rest: Continuation): Continuation {
    const key = `${node.id} ${rest?.id ?? -1}`
    let existing = this.continuations.get(key)
    if (!existing) {
      existing = { id: this.continuationCount++, node, rest }
      this.continuations.set(key, existing)
    }
    return existing
  }

  private closureState(fill: (closure: Closure) => void): State {
    const closure = new Closure(this, this.grammar)
    fill(closure)
    const { threads, accepts, expanded } = closure
    this.work += threads.length + expanded
    const key = `${accepts ? '!' : ''}${threads.map(({ node, at, rest }) => `${node.id}.${at}.${rest?.id ?? -1}`).join(' ')}`
    let state = this.states.get(key)
    if (state) return state
    if (this.states.size >= MAX_STATES) {
      // Otherwise states in use would retain the whole cache.
      for (const { next } of this.states.values()) next.clear()
      this.states = new Map()
      this.continuations = new Map()
    }
    state = { threads, accepts, next: new Map() }
    this.states.set(key, state)
    return state
  }
}

/** The threads that are reached without reading a symbol. */
class Closure {
  readonly threads: Thread[] = []
  accepts = false
  /** The number of expanded nodes. */
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
    if (this.threads.length < MAX_THREADS) this.threads.push(thread)
    if (!terminal.accepts(at)) return
    if (rest === null) this.accepts = true
    else this.expand(rest.node, rest.rest)
  }

  /** Expands nothing beyond `MAX_THREADS` threads, since nested alternatives multiply. */
  expand(node: Node, rest: Continuation): void {
    if (!node.productive || this.threads.length >= MAX_THREADS) return
    this.expanded += 1
    if (node.kind === 'terminal') return this.add({ node, terminal: node.terminal, at: node.terminal.start, rest })
    if (!this.isNew(`${node.id}/${rest?.id ?? -1}`)) return
    switch (node.kind) {
      case 'sequence':
        return this.expandSequence(node.parts, rest)
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

  private expandSequence(parts: readonly Node[], rest: Continuation): void {
    const [first, ...others] = parts
    if (!first) return this.resume(rest)
    this.expand(
      first,
      others.reduceRight((following: Continuation, part) => this.machine.push(part, following), rest),
    )
  }

  private resume(rest: Continuation): void {
    if (rest === null) this.accepts = true
    else this.expand(rest.node, rest.rest)
  }

  private items({ list, at }: Extract<Node, { kind: 'items' }>, rest: Continuation): void {
    if (at >= list.min) this.resume(rest)
    const item = list.first[at] ?? list.rest
    if (at >= list.max || !item?.productive) return
    this.expandSequence([...(at > 0 ? [list.separator] : []), item, this.grammar.items(list, at + 1)], rest)
  }

  private fields({ object, at, hasPrevious }: Extract<Node, { kind: 'fields' }>, rest: Continuation): void {
    const separator = hasPrevious ? [object.separator] : []
    for (const [i, { node, required }] of object.fields.entries()) {
      if (i < at) continue
      if (this.threads.length >= MAX_THREADS) break
      if (node.productive) this.expandSequence([...separator, node, this.grammar.fields(object, i + 1, true)], rest)
      if (required) return
    }
    if (object.extra?.productive)
      this.expandSequence([...separator, object.extra, this.grammar.fields(object, object.fields.length, true)], rest)
    this.resume(rest)
  }
}
