/**
 * An interpreter of chat templates with a limit of work. Work is counted in steps: for expressions, for loop
 * iterations, and for the sizes of the operands of filters, methods and operators. The count does not depend on the
 * machine; a template that reaches the limit fails before it does the work.
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

/** The members of the library's class that are overridden or called here, most of them private (covered by tests). */
const BaseInterpreter = Interpreter as unknown as new (environment: Environment) => {
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

/** Steps of one iteration of a loop, in addition to those of its body. */
const ITERATION = 8
/** Steps of an undefined name, for which the library throws and catches an error. */
const UNDEFINED_NAME = 4
/** Characters per step of filters and methods that process a whole text, by name. */
const CHARACTERS: ReadonlyMap<string, number> = new Map(
  [
    { names: ['upper', 'lower', 'capitalize', 'trim', 'strip', 'lstrip', 'rstrip'], characters: 64 },
    { names: ['string', 'join', 'indent', 'int', 'float'], characters: 16 },
    { names: ['sort', 'dictsort'], characters: 1 },
  ].flatMap(({ names, characters }) => names.map((name) => [name, characters] as const)),
)
/** Characters per step of all other operations. */
const OTHER_CHARACTERS = 8
/** Filters and methods that read the number or the references of a collection's entries, not their contents. */
const SHALLOW: ReadonlySet<string> = new Set(
  (
    'length first last list reverse safe default get items keys values map selectattr rejectattr ' +
    'startswith endswith'
  ).split(' '),
)
/** Product of two lengths in characters per step, for operations on two texts: a search of one in the other, a join. */
const PAIRS = 256
/** Characters that an entry of a collection counts in addition to its text. */
const ENTRY = 8

export class BoundedInterpreter extends BaseInterpreter {
  private remaining: number
  private depth = 0
  private readonly limit: number
  /** Nodes over whose values loops iterate. */
  private readonly iterated = new WeakSet<object>()
  /** Nodes whose values are part of the output. */
  private readonly printed = new WeakSet<object>()
  private readonly blocks = new WeakSet<object>()
  /** Copies of nodes for `withEvaluated`, by node. */
  private readonly copies = new WeakMap<object, TemplateNode>()
  private readonly sizes = new WeakMap<object, number>()
  /** The filter whose arguments are evaluated next, and its operand. */
  private filtered: { name: string; operand: TemplateValue; args: TemplateNode[] } | null = null

  constructor(environment: Environment, limit: number) {
    super(environment)
    this.limit = limit
    this.remaining = limit
  }

  /** Counts steps. Throws `bad_request` when the limit is exceeded. */
  spend(steps: number): void {
    this.remaining -= steps
    if (!(this.remaining >= 0))
      throw new InstarError(
        'bad_request',
        `The model's chat template takes more than ${this.limit} steps for these messages.`,
      )
  }

  override evaluate(node: TemplateNode | undefined, scope: unknown): TemplateValue {
    if (node instanceof EvaluatedNode) return node.value as TemplateValue
    if (node?.type === 'For' && node.iterable)
      for (const iterable of [node.iterable, node.iterable.lhs]) if (iterable) this.iterated.add(iterable)
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
      if (this.iterated.has(node)) this.spend(ITERATION * entriesOf(result))
      else if (Array.isArray(value)) this.spend(value.length / (node.type === 'CallExpression' ? 2 : 16))
      if (this.printed.has(node)) this.spend(this.charactersIn(result) / OTHER_CHARACTERS)
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
    if (result.value === undefined) this.spend(UNDEFINED_NAME)
    return result
  }

  override evaluateBinaryExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const operator = node.operator?.value ?? ''
    if (operator === 'and' || operator === 'or') return super.evaluateBinaryExpression(node, scope)
    const left = this.evaluate(node.left, scope)
    const right = this.evaluate(node.right, scope)
    this.spendOperator(operator, left, right)
    return super.evaluateBinaryExpression(this.withEvaluated(node, ['left', 'right'], [left, right]), scope)
  }

  override evaluateTestExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const operand = this.evaluate(node.operand, scope)
    if (node.test && CHARACTERS.has(node.test.value)) this.spendCall(node.test.value, operand, [])
    return super.evaluateTestExpression(this.withEvaluated(node, ['operand'], [operand]), scope)
  }

  override evaluateMemberExpression(node: TemplateNode, scope: unknown): TemplateValue {
    const object = this.evaluate(node.object, scope)
    const member = super.evaluateMemberExpression(this.withEvaluated(node, ['object'], [object]), scope)
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
    const evaluated = super.evaluateArguments(args, scope)
    const [positional, named] = evaluated
    this.spend(positional.length + named.size)
    if (filtered) this.spendPairs(filtered.name, filtered.operand, [...positional, ...named.values()])
    return evaluated
  }

  /** The library traverses the nodes of a macro whenever it evaluates its definition. */
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
    if (!args) this.spendCall(name, operand, [])
    else if (name === 'selectattr' || name === 'rejectattr') {
      // The library reads the arguments of these filters as literals and does not call evaluateArguments.
      this.spendCall(args.some(({ value }) => CHARACTERS.has(String(value))) ? 'lower' : name, operand, [])
      this.spendPairs(name, operand, args as TemplateValue[])
    } else {
      this.spendCall(name, operand, [])
      this.filtered = { name, operand, args }
    }
    return super.applyFilter(operand, filter, scope)
  }

  /** The method, with its steps counted at every call. */
  private counted(name: string, object: TemplateValue, method: TemplateValue): TemplateValue {
    const call = method.value as TemplateFunction
    return new (method.constructor as new (value: TemplateFunction) => TemplateValue)((args, scope) => {
      this.spendCall(name, object, args)
      return call(args, scope)
    })
  }

  /** Counts the steps of a filter or method call. */
  private spendCall(name: string, operand: TemplateValue, args: readonly TemplateValue[]): void {
    const characters = SHALLOW.has(name) ? entriesOf(operand) : this.charactersIn(operand)
    const per = CHARACTERS.get(name) ?? OTHER_CHARACTERS
    this.spend((characters / per) * (per === 1 ? 1 + Math.log2(1 + entriesOf(operand)) : 1))
    this.spendPairs(name, operand, args)
  }

  /** Counts the steps of the arguments: each of them may be combined with each part of the operand. */
  private spendPairs(name: string, operand: TemplateValue, args: readonly TemplateValue[]): void {
    if (args.length === 0) return
    const characters = 1 + (SHALLOW.has(name) ? entriesOf(operand) : this.charactersIn(operand))
    for (const { type, value } of args.flatMap(unpacked))
      if (typeof value === 'number' || typeof value === 'string' || Array.isArray(value)) {
        const width =
          typeof value === 'number'
            ? widthOf(name, value)
            : typeof value === 'string'
              ? value.length
              : this.charactersIn({ type, value })
        this.spend((characters * width) / PAIRS)
      }
  }

  /** Counts the steps of a binary operator. */
  private spendOperator(operator: string, left: TemplateValue, right: TemplateValue): void {
    const [a, b] = [left.value, right.value]
    if (typeof a === 'string' && typeof b === 'string') {
      if (operator.endsWith('in')) this.spend(b.length / 64 + (a.length * b.length) / PAIRS / 4)
      else if (a.length === b.length) this.spend(a.length / 64)
    } else if (operator.endsWith('in')) {
      this.spend(entriesOf(right) / OTHER_CHARACTERS)
      if (typeof a === 'string') this.spend((a.length * entriesOf(right)) / PAIRS)
    } else
      for (const operand of [left, right])
        if (typeof operand.value === 'object') this.spend(this.charactersIn(operand) / OTHER_CHARACTERS)
  }

  /**
   * The length of a value as text, nested values included; Infinity if counting it would exceed the remaining steps.
   */
  private charactersIn(value: TemplateValue): number {
    const most = this.remaining * 64
    let characters = 0
    const pending: TemplateValue[] = [value]
    for (let next = pending.pop(); next !== undefined && characters <= most; next = pending.pop()) {
      const inner = next.value
      characters += ENTRY
      if (typeof inner === 'string') characters += inner.length
      else if (Array.isArray(inner)) {
        if (characters + ENTRY * inner.length > most) return Infinity
        for (const entry of inner as TemplateValue[]) pending.push(entry)
      } else if (inner instanceof Map) {
        for (const [key, entry] of inner as Map<string, TemplateValue>) {
          characters += key.length
          pending.push(entry)
        }
      }
    }
    return characters > most ? Infinity : characters
  }

  /**
   * A copy of the node in which `parts` have the given values, so that they are not evaluated twice. The copy is
   * reused; this is safe since the library reads these parts before it evaluates others.
   */
  private withEvaluated(
    node: TemplateNode,
    parts: readonly ('left' | 'right' | 'operand' | 'object')[],
    values: TemplateValue[],
  ): TemplateNode {
    let copy = this.copies.get(node)
    if (!copy) {
      copy = { ...node }
      this.copies.set(node, copy)
      for (const part of parts) copy[part] = new EvaluatedNode()
    }
    for (const [i, part] of parts.entries()) (copy[part] as EvaluatedNode).value = values[i]!
    return copy
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

/** A node that stands for an evaluated value. */
class EvaluatedNode {
  readonly type = 'Evaluated'
  value: unknown
}

const entriesOf = ({ value }: TemplateValue): number =>
  Array.isArray(value) ? value.length : value instanceof Map ? value.size : 0

/** The library passes named arguments to methods as one value. */
const unpacked = (argument: TemplateValue): TemplateValue[] =>
  argument.type === 'KeywordArgumentsValue' ? [...(argument.value as Map<string, TemplateValue>).values()] : [argument]

/** The characters of indentation per line or entry that a number requests. */
const widthOf = (name: string, value: number): number => (name === 'indent' || name === 'tojson' ? Math.abs(value) : 0)
