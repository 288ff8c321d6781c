/** Grammars: terminals in sequences, choices, lists and objects, with rules that may hold themselves. */
import { tooLarge } from './refusal.ts'
import type { Terminal } from './terminal.ts'

/** Characters of a text in JSON that says nothing but how many; `inCall` as in text.ts. */
export type PlainText = { min: number; max: number; inCall: boolean }

/** `alive`: some word is of it. What is not is never begun. */
type Base = { readonly id: number; alive: boolean }
export type Node = Base &
  /** `text`: what it is in short, where that can be said. */
  (
    | { kind: 'terminal'; terminal: Terminal; text: PlainText | null }
    | { kind: 'sequence'; parts: readonly Node[] }
    | { kind: 'choice'; parts: readonly Node[] }
    | { kind: 'rule'; body: Node | null }
    /** What may stand from the item `at` on. */
    | { kind: 'items'; list: List; at: number }
    /** What may stand from the field `at` on; `some`: one stood before. */
    | { kind: 'fields'; object: Members; at: number; some: boolean }
  )

/** Items `first`, then any number of `rest` (null: none); `min` to `max` in all. */
export type List = {
  first: readonly Node[]
  rest: Node | null
  min: number
  max: number
  separator: Node
  positions: Map<number, Node>
}
/** Fields in their order, each with its name and colon, then any number of `extra`. */
export type Members = {
  fields: readonly { node: Node; required: boolean }[]
  extra: Node | null
  separator: Node
  positions: Map<number, Node>
}

const MAX_NODES = 60_000

export class Grammar {
  private nodes: Node[] = []
  private count = 0
  /** Between bounds, by these; null: there are none. */
  readonly numbers = new Map<string, Terminal | null>()

  terminal(terminal: Terminal, text: PlainText | null = null): Node {
    return this.add({ ...this.base(), kind: 'terminal', terminal, text })
  }

  sequence(...parts: readonly Node[]): Node {
    return this.add({ ...this.base(), kind: 'sequence', parts })
  }

  choice(parts: readonly Node[]): Node {
    return this.add({ ...this.base(), kind: 'choice', parts })
  }

  /** `build` may refer to the rule. */
  rule(build: (rule: Node) => Node): Node {
    const rule: Node = { ...this.base(), kind: 'rule', body: null }
    this.add(rule)
    rule.body = build(rule)
    return rule
  }

  list(list: Omit<List, 'positions'>): Node {
    return this.items({ ...list, positions: new Map() }, 0)
  }

  members(object: Omit<Members, 'positions'>): Node {
    return this.fields({ ...object, positions: new Map() }, 0, false)
  }

  /** Where only the rest follows, all places are one. */
  items(list: List, at: number): Node {
    const place = list.max === Infinity ? Math.min(at, Math.max(list.first.length, list.min, 1)) : at
    return remembered(list.positions, place, () => this.add({ ...this.base(), kind: 'items', list, at: place }))
  }

  fields(object: Members, at: number, some: boolean): Node {
    return remembered(object.positions, at * 2 + Number(some), () =>
      this.add({ ...this.base(), kind: 'fields', object, at, some }),
    )
  }

  /** Finds what has words; to be called once, when all is built. */
  settle(): void {
    // A chain of nodes stands in one order or the other: either way two passes settle it.
    const passes = [this.nodes, this.nodes.toReversed()]
    let changed = true
    for (let pass = 0; changed || pass < passes.length; pass += 1) {
      changed = false
      for (const node of passes[pass % passes.length]!) {
        if (node.alive || !isAlive(node)) continue
        node.alive = true
        changed = true
      }
    }
    // What is made while words are read is of lists and objects that are alive.
    this.nodes = []
    this.settled = true
  }

  private settled = false

  private base(): Base {
    return { id: this.count++, alive: this.settled }
  }

  private add(node: Node): Node {
    if (this.settled) return node
    if (this.nodes.length >= MAX_NODES) throw tooLarge('it')
    this.nodes.push(node)
    return node
  }
}

function remembered(positions: Map<number, Node>, at: number, make: () => Node): Node {
  const known = positions.get(at)
  if (known) return known
  const node = make()
  positions.set(at, node)
  return node
}

function isAlive(node: Node): boolean {
  switch (node.kind) {
    case 'terminal':
      return true
    case 'sequence':
      return node.parts.every((part) => part.alive)
    case 'choice':
      return node.parts.some((part) => part.alive)
    case 'rule':
      return node.body?.alive ?? false
    case 'items': {
      const { first, rest, min, max } = node.list
      const needed = first.slice(0, Math.min(min, first.length))
      return min <= max && needed.every((item) => item.alive) && (min <= first.length || (rest?.alive ?? false))
    }
    case 'fields':
      return node.object.fields.every(({ node: field, required }) => !required || field.alive)
  }
}
