/**
 * Runs a chat template and counts its work: expressions, passes through loops, and what filters, methods and
 * operators go through at once. The count is the same on every machine; at the limit the template is given up, before
 * the work is done.
 */
import { Interpreter, type Environment } from '@huggingface/jinja'
import { InstarError } from '@instar/events/errors'

type TemplateNode = {
  type: string
  iterable?: TemplateNode
  lhs?: TemplateNode
  args?: TemplateNode[]
  value?: unknown
  callee?: TemplateNode
  object?: TemplateNode
  operand?: TemplateNode
  left?: TemplateNode
  right?: TemplateNode
  operator?: { value: string }
  test?: { value: string }
}
type TemplateFunction = (args: TemplateValue[], scope: unknown) => TemplateValue
type TemplateValue = { type: string; value: unknown; builtins?: ReadonlyMap<string, TemplateValue> }
type Arguments = [positional: TemplateValue[], named: Map<string, TemplateValue>]

/** The members of the library's class used here, most of them private: a test fails when one is missing. */
const Runner = Interpreter as unknown as new (environment: Environment) => {
  run(program: unknown): TemplateValue
  evaluate(node: TemplateNode | undefined, scope: unknown): TemplateValue
  evaluateBlock(statements: TemplateNode[], scope: unknown): TemplateValue
  evaluateIdentifier(node: TemplateNode, scope: unknown): TemplateValue
  evaluateBinaryExpression(node: TemplateNode, scope: unknown): TemplateValue
  evaluateTestExpression(node: TemplateNode, scope: unknown): TemplateValue
  evaluateMemberExpression(node: TemplateNode, scope: unknown): TemplateValue
  evaluateSliceExpression(object: TemplateValue, node: TemplateNode, scope: unknown): TemplateValue
  evaluateArguments(args: TemplateNode[], scope: unknown): Arguments
  evaluateMacro(node: TemplateNode, scope: unknown): TemplateValue
  evaluateCallStatement(node: TemplateNode, scope: unknown): TemplateValue
  applyFilter(operand: TemplateValue, filter: TemplateNode, scope: unknown): TemplateValue
}

/** Steps of one pass through a loop, beside what is in it. */
const PASS = 8
/** Steps for an undefined name: the library finds it undefined by throwing an error. */
const UNKNOWN = 4
/** Characters to a step of what goes through a text at once, by filter and method; of those not named here. */
const CHARACTERS: ReadonlyMap<string, number> = new Map(
  [
    { names: ['upper', 'lower', 'capitalize', 'trim', 'strip', 'lstrip', 'rstrip'], characters: 64 },
    { names: ['string', 'join', 'indent', 'int', 'float'], characters: 16 },
    { names: ['sort', 'dictsort'], characters: 1 },
  ].flatMap(({ names, characters }) => names.map((name) => [name, characters] as const)),
)
const OTHER_CHARACTERS = 8
/** Operations that read the entries of a collection, not their contents. */
const SHALLOW: ReadonlySet<string> = new Set(
  (
    'length first last list reverse safe default get items keys values map selectattr rejectattr ' +
    'startswith endswith'
  ).split(' '),
)
/** Characters per step where two texts are processed together: a search of one in the other, or a join. */
const PAIRS = 256
/** What an entry of a collection counts beside its own text, in characters. */
const ENTRY = 8

export class BoundedInterpreter extends Runner {
  private left: number
  private depth = 0
  private readonly limit: number
  /** Nodes whose values loops go through. */
  private readonly iterated = new WeakSet<object>()
  /** Nodes whose values are written out. */
  private readonly printed = new WeakSet<object>()
  private readonly blocks = new WeakSet<object>()
  private readonly known = new WeakMap<object, { node: TemplateNode; values: TemplateValue[] }>()
  private readonly sizes = new WeakMap<object, number>()
  /** The filter whose arguments are evaluated next, and what it is applied to. */
  private filtered: { name: string; operand: TemplateValue; args: TemplateNode[] } | null = null

  constructor(environment: Environment, limit: number) {
    super(environment)
    this.limit = limit
    this.left = limit
  }

  /** Throws `bad_request` where nothing is left. */
  spend(work: number): void {
    this.left -= work
    if (!(this.left >= 0))
      throw new InstarError(
        'bad_request',
        `The model's chat template does more than ${this.limit} steps on these messages.`,
      )
  }

  override evaluate(node: TemplateNode | undefined, scope: unknown): TemplateValue {
    if (node instanceof EvaluatedNode) return node.value as TemplateValue
    if (node?.type === 'For' && node.iterable)
      for (const one of [node.iterable, node.iterable.lhs]) if (one) this.iterated.add(one)
    this.spend(1)
    this.depth += 1
    let result: TemplateValue
    try {
      result = super.evaluate(node, scope)
    } finally {
      this.depth -= 1
    }
    const { value } = result
    if (typeof value === 'string') this.spend(value.length / 256)
    else if (typeof value === 'object' && node) {
      if (this.iterated.has(node)) this.spend(PASS * entriesOf(result))
      else if (Array.isArray(value)) this.spend(value.length / (node.type === 'CallExpression' ? 2 : 16))
      if (this.printed.has(node)) this.spend(this.weigh(result) / OTHER_CHARACTERS)
    }
    return result
  }

  override evaluateBlock(statements: TemplateNode[], scope: unknown): TemplateValue {
    if (!this.blocks.has(statements)) {
      this.blocks.add(statements)
      for (const statement of statements) this.printed.add(statement)
    }
    return super.evaluateBlock(statements, scope)
  }

  override evaluateIdentifier(node: TemplateNode, scope: unknown): TemplateValue {
    this.spend(this.depth / 32)
    const result = super.evaluateIdentifier(node, scope)
    if (result.value === undefined) this.spend(UNKNOWN)
    return result
  }

  override evaluateBinaryExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const operator = node.operator?.value ?? ''
    if (operator === 'and' || operator === 'or') return super.evaluateBinaryExpression(node, scope)
    const left = this.evaluate(node.left, scope)
    const right = this.evaluate(node.right, scope)
    this.compare(operator, left, right)
    return super.evaluateBinaryExpression(this.with(node, ['left', 'right'], [left, right]), scope)
  }

  override evaluateTestExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const operand = this.evaluate(node.operand, scope)
    if (node.test && CHARACTERS.has(node.test.value)) this.charge(node.test.value, operand, [])
    return super.evaluateTestExpression(this.with(node, ['operand'], [operand]), scope)
  }

  override evaluateMemberExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const object = this.evaluate(node.object, scope)
    const member = super.evaluateMemberExpression(this.with(node, ['object'], [object]), scope)
    if (member.type !== 'FunctionValue') return member
    for (const [name, method] of object.builtins ?? []) if (method === member) return this.counted(name, object, method)
    return member
  }

  override evaluateSliceExpression(object: TemplateValue, node: TemplateNode, scope: unknown): TemplateValue {
    this.spend((typeof object.value === 'string' ? object.value.length : entriesOf(object)) / OTHER_CHARACTERS)
    return super.evaluateSliceExpression(object, node, scope)
  }

  override evaluateArguments(args: TemplateNode[], scope: unknown): Arguments {
    const filtered = this.filtered?.args === args ? this.filtered : null
    this.filtered = null
    const found = super.evaluateArguments(args, scope)
    this.spend(found[0].length + found[1].size)
    if (filtered) this.chargePairs(filtered.name, filtered.operand, [...found[0], ...found[1].values()])
    return found
  }

  /** The library goes through a macro's text each time that it comes to it. */
  override evaluateMacro(node: TemplateNode, scope: unknown): TemplateValue {
    this.spend(this.nodesIn(node))
    return super.evaluateMacro(node, scope)
  }

  override evaluateCallStatement(node: TemplateNode, scope: unknown): TemplateValue {
    this.spend(this.nodesIn(node))
    return super.evaluateCallStatement(node, scope)
  }

  override applyFilter(operand: TemplateValue, filter: TemplateNode, scope: unknown): TemplateValue {
    const { args } = filter
    const name = String((filter.callee ?? filter).value)
    if (!args) this.charge(name, operand, [])
    else if (name === 'selectattr' || name === 'rejectattr') {
      // Its arguments are texts of the template, and are not evaluated as arguments.
      this.charge(args.some(({ value }) => CHARACTERS.has(String(value))) ? 'lower' : name, operand, [])
      this.chargePairs(name, operand, args as TemplateValue[])
    } else {
      this.charge(name, operand, [])
      this.filtered = { name, operand, args }
    }
    return super.applyFilter(operand, filter, scope)
  }

  /** The method, which is charged for wherever it is called. */
  private counted(name: string, object: TemplateValue, method: TemplateValue): TemplateValue {
    const call = method.value as TemplateFunction
    return new (method.constructor as new (value: TemplateFunction) => TemplateValue)((args, scope) => {
      this.charge(name, object, args)
      return call(args, scope)
    })
  }

  private charge(name: string, operand: TemplateValue, args: readonly TemplateValue[]): void {
    const characters = SHALLOW.has(name) ? entriesOf(operand) : this.weigh(operand)
    const per = CHARACTERS.get(name) ?? OTHER_CHARACTERS
    this.spend((characters / per) * (per === 1 ? 1 + Math.log2(1 + entriesOf(operand)) : 1))
    this.chargePairs(name, operand, args)
  }

  /** What the arguments make of it: each of them may come with each part of the operand. */
  private chargePairs(name: string, operand: TemplateValue, args: readonly TemplateValue[]): void {
    if (args.length === 0) return
    const characters = 1 + (SHALLOW.has(name) ? entriesOf(operand) : this.weigh(operand))
    for (const { type, value } of args.flatMap(unpacked))
      if (typeof value === 'number' || typeof value === 'string' || Array.isArray(value)) {
        const wide =
          typeof value === 'number'
            ? widthOf(name, value)
            : typeof value === 'string'
              ? value.length
              : this.weigh({ type, value })
        this.spend((characters * wide) / PAIRS)
      }
  }

  private compare(operator: string, left: TemplateValue, right: TemplateValue): void {
    const [a, b] = [left.value, right.value]
    if (typeof a === 'string' && typeof b === 'string') {
      if (operator.endsWith('in')) this.spend(b.length / 64 + (a.length * b.length) / PAIRS / 4)
      else if (a.length === b.length) this.spend(a.length / 64)
    } else if (operator.endsWith('in')) {
      this.spend(entriesOf(right) / OTHER_CHARACTERS)
      if (typeof a === 'string') this.spend((a.length * entriesOf(right)) / PAIRS)
    } else
      for (const one of [left, right]) if (typeof one.value === 'object') this.spend(this.weigh(one) / OTHER_CHARACTERS)
  }

  /** Characters of all that is in it, as it would be written; of what is beyond the limit, a number beyond it. */
  private weigh(value: TemplateValue): number {
    const most = this.left * 64
    let weight = 0
    const waiting: TemplateValue[] = [value]
    for (let one = waiting.pop(); one !== undefined && weight <= most; one = waiting.pop()) {
      const inner = one.value
      weight += ENTRY
      if (typeof inner === 'string') weight += inner.length
      else if (Array.isArray(inner)) {
        if (weight + ENTRY * inner.length > most) return Infinity
        for (const entry of inner as TemplateValue[]) waiting.push(entry)
      } else if (inner instanceof Map) {
        for (const [key, entry] of inner as Map<string, TemplateValue>) {
          weight += key.length
          waiting.push(entry)
        }
      }
    }
    return weight > most ? Infinity : weight
  }

  /** The node with these parts of it evaluated. The library asks for them before it evaluates anything else of it. */
  private with(
    node: TemplateNode,
    parts: readonly ('left' | 'right' | 'operand' | 'object')[],
    values: TemplateValue[],
  ): TemplateNode {
    let known = this.known.get(node)
    if (!known) {
      known = { node: { ...node }, values: [] }
      this.known.set(node, known)
      for (const part of parts) known.node[part] = new EvaluatedNode()
    }
    parts.forEach((part, i) => ((known.node[part] as EvaluatedNode).value = values[i]!))
    return known.node
  }

  private nodesIn(node: object): number {
    let size = this.sizes.get(node)
    if (size === undefined) {
      size = 1
      for (const part of Object.values(node))
        if (typeof part === 'object' && part !== null) size += this.nodesIn(part as object)
      this.sizes.set(node, size)
    }
    return size
  }
}

/** A node replaced by its evaluated value. */
class EvaluatedNode {
  readonly type = 'Known'
  value: unknown
}

const entriesOf = ({ value }: TemplateValue): number =>
  Array.isArray(value) ? value.length : value instanceof Map ? value.size : 0

/** Named arguments come to methods as one value. */
const unpacked = (argument: TemplateValue): TemplateValue[] =>
  argument.type === 'KeywordArgumentsValue' ? [...(argument.value as Map<string, TemplateValue>).values()] : [argument]

/** The output width that an argument asks for, per line or entry. */
const widthOf = (name: string, value: number): number => (name === 'indent' || name === 'tojson' ? Math.abs(value) : 0)
