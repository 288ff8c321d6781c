/** Context-free grammars of terminals, sequences, choices, lists, objects and recursive rules. */
import { tooLarge } from './schema-errors.ts'
import type { Terminal } from './terminal.ts'

/** A JSON string that is constrained in length only. `inCall`: see text.ts. */
export type PlainText = { min: number; max: number; inCall: boolean }

/** `productive`: the node derives at least one word. Other nodes are never entered. */
type Base = { readonly id: number; productive: boolean }
export type Node = Base &
  /** `text`: set if the terminal is a string that is constrained in length only. */
  (
    | { kind: 'terminal'; terminal: Terminal; text: PlainText | null }
    | { kind: 'sequence'; parts: readonly Node[] }
    | { kind: 'choice'; parts: readonly Node[] }
    | { kind: 'rule'; body: Node | null }
    /** The items of a list from index `at` on. */
    | { kind: 'items'; list: List; at: number }
    /** The fields of an object from index `at` on. `hasPrevious`: a field was generated before. */
    | { kind: 'fields'; object: Members; at: number; hasPrevious: boolean }
  )

/** Items `first`, then any number of `rest` (null: none), `min` to `max` in total. */
export type List = {
  first: readonly Node[]
  rest: Node | null
  min: number
  max: number
  separator: Node
  positions: Map<number, Node>
}
/** Fields in order, each with name and colon, then any number of `extra` fields. */
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

  /** Adds a rule. `build` may refer to it. */
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

  /** The node of a list from index `at` on. Indexes after which only `rest` follows share a node. */
  items(list: List, at: number): Node {
    const position = list.max === Infinity ? Math.min(at, Math.max(list.first.length, list.min, 1)) : at
    return memoized(list.positions, position, () => this.add({ ...this.base(), kind: 'items', list, at: position }))
  }

  fields(object: Members, at: number, hasPrevious: boolean): Node {
    return memoized(object.positions, at * 2 + Number(hasPrevious), () =>
      this.add({ ...this.base(), kind: 'fields', object, at, hasPrevious }),
    )
  }

  /** Marks the productive nodes. Call it once, when the grammar is complete. */
  markProductive(): void {
    // Passes alternate forwards and backwards, so that a chain of nodes in either order needs two passes.
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
    // Nodes that are added later belong to productive lists and objects.
    this.nodes = []
    this.marked = true
  }

  private marked = false

  private base(): Base {
    return { id: this.count++, productive: this.marked }
  }

  private add(node: Node): Node {
    if (this.marked) return node
    if (this.nodes.length >= MAX_NODES) throw tooLarge('its grammar')
    this.nodes.push(node)
    return node
  }
}

function memoized(positions: Map<number, Node>, at: number, make: () => Node): Node {
  const existing = positions.get(at)
  if (existing) return existing
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
