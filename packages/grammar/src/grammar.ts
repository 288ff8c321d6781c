/** Context-free grammars: terminals in sequences, choices, lists, objects and recursive rules. */
import { tooLarge } from './refusal.ts'
import type { Terminal } from './terminal.ts'

/** A JSON text that is constrained in length alone; `inCall` as in text.ts. */
export type PlainText = { min: number; max: number; inCall: boolean }

/** `productive`: it derives at least one word. A node that is not is never entered. */
type Base = { readonly id: number; productive: boolean }
export type Node = Base &
  /** `text`: set if the terminal is a plain text. */
  (
    | { kind: 'terminal'; terminal: Terminal; text: PlainText | null }
    | { kind: 'sequence'; parts: readonly Node[] }
    | { kind: 'choice'; parts: readonly Node[] }
    | { kind: 'rule'; body: Node | null }
    /** The items from `at` on. */
    | { kind: 'items'; list: List; at: number }
    /** The fields from `at` on; `some`: at least one was written before. */
    | { kind: 'fields'; object: Members; at: number; some: boolean }
  )

/** Items `first`, then any number of `rest` (null: none); `min` to `max` in total. */
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
  /** Terminals of bounded numbers by their bounds; null: no number is within them. */
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

  /** Positions after which only `rest` follows share one node. */
  items(list: List, at: number): Node {
    const place = list.max === Infinity ? Math.min(at, Math.max(list.first.length, list.min, 1)) : at
    return remembered(list.positions, place, () => this.add({ ...this.base(), kind: 'items', list, at: place }))
  }

  fields(object: Members, at: number, some: boolean): Node {
    return remembered(object.positions, at * 2 + Number(some), () =>
      this.add({ ...this.base(), kind: 'fields', object, at, some }),
    )
  }

  /** Marks the productive nodes. Called once, when the grammar is complete. */
  markProductive(): void {
    // Passes run forwards and backwards, so a chain of nodes in either order is marked in two.
    const passes = [this.nodes, this.nodes.toReversed()]
    let changed = true
    for (let pass = 0; changed || pass < passes.length; pass += 1) {
      changed = false
      for (const node of passes[pass % passes.length]!) {
        if (node.productive || !isProductive(node)) continue
        node.productive = true
        changed = true
      }
    }
    // Nodes that are made later belong to lists and objects that are productive.
    this.nodes = []
    this.marked = true
  }

  private marked = false

  private base(): Base {
    return { id: this.count++, productive: this.marked }
  }

  private add(node: Node): Node {
    if (this.marked) return node
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

function isProductive(node: Node): boolean {
  switch (node.kind) {
    case 'terminal':
      return true
    case 'sequence':
      return node.parts.every((part) => part.productive)
    case 'choice':
      return node.parts.some((part) => part.productive)
    case 'rule':
      return node.body?.productive ?? false
    case 'items': {
      const { first, rest, min, max } = node.list
      const needed = first.slice(0, Math.min(min, first.length))
      return (
        min <= max && needed.every((item) => item.productive) && (min <= first.length || (rest?.productive ?? false))
      )
    }
    case 'fields':
      return node.object.fields.every(({ node: field, required }) => !required || field.productive)
  }
}
