/** The graph under construction that the kernels of the tracing backend append to; see trace.ts. */
import * as tf from '../tensors.ts'
import type { PackedTensor } from '../weights.ts'
import type { Attribute, OnnxBranch, OnnxInitializer, OnnxNode, OnnxType } from './onnx-writer.ts'
import type { TensorData } from './backend.ts'

export type Dtype = 'float32' | 'int32' | 'bool'

/** What a traced tensor is: the name of a graph value, or a constant that has not been named yet. */
export type Traced = {
  name: string | null
  constant: { data: Float32Array | Int32Array | Uint8Array; uniform: number | null } | null
}

/** One graph under construction. */
export class Tracer {
  nodes: OnnxNode[] = []
  /** Frozen constants in blocks of 4 bits, by name. */
  readonly packed: (name: string) => PackedTensor | null
  readonly initializers = new Map<string, OnnxInitializer>()
  private readonly values = new WeakMap<object, Traced>()
  private readonly shared = new Map<string, string>()
  private count = 0
  /** Named dimension → its prime, and where the run's size can be read: [input, axis]. */
  readonly dimensions = new Map<string, { prime: number; input: string; axis: number }>()

  constructor(packed: (name: string) => PackedTensor | null) {
    this.packed = packed
  }

  fresh(prefix: string): string {
    return `${prefix}_${this.count++}`
  }

  define(value: Traced): object {
    const dataId = {}
    this.values.set(dataId, value)
    return dataId
  }

  traced(dataId: object): Traced {
    const value = this.values.get(dataId)
    if (!value) throw new Error('a tensor of another backend reached the traced program')
    return value
  }

  /**
   * The graph value of a tensor; a constant becomes an initializer (or an Expand where its shape is not fixed) here.
   */
  nameOf(info: tf.TensorInfo): string {
    const value = this.traced(info.dataId)
    if (value.name !== null) return value.name
    const constant = value.constant
    if (!constant) throw new Error('a traced tensor without name or value')
    const dtype = info.dtype as Dtype
    if (constant.uniform !== null && info.shape.length > 0 && tf.util.sizeFromShape(info.shape) > 1) {
      const scalar = this.small(dtype, [], Float32Array.of(constant.uniform), dtype)
      value.name = this.once(`fill:${scalar}:${info.shape.join()}`, () =>
        this.emit('Expand', [scalar, this.shapeTensor(info.shape)], {}),
      )
    } else {
      if (info.shape.some((size) => this.factors(size).names.length > 0))
        throw new Error(`a constant may not have a named dimension: [${info.shape.join()}]`)
      value.name = this.small(dtype, info.shape, constant.data, dtype)
    }
    return value.name
  }

  /** A small initializer, equal ones shared. */
  private small(type: Dtype, shape: readonly number[], data: ArrayLike<number>, key: string): string {
    return this.once(`${key}:${shape.join()}:${Array.from(data).join()}`, () => {
      const name = this.fresh('const')
      const bytes =
        type === 'float32'
          ? new Uint8Array(Float32Array.from(data).buffer)
          : type === 'int32'
            ? new Uint8Array(Int32Array.from(data).buffer)
            : Uint8Array.from(data)
      this.initializers.set(name, { name, type, shape, bytes })
      return name
    })
  }

  int64(values: readonly number[]): string {
    return this.once(`int64:${values.join()}`, () => {
      const name = this.fresh('shape')
      this.initializers.set(name, {
        name,
        type: 'int64',
        shape: [values.length],
        bytes: new Uint8Array(BigInt64Array.from(values, (value) => BigInt(value)).buffer),
      })
      return name
    })
  }

  private once(key: string, make: () => string): string {
    let name = this.shared.get(key)
    if (name === undefined) {
      name = make()
      this.shared.set(key, name)
    }
    return name
  }

  /** A large initializer that keeps the caller's bytes. */
  initializer(name: string, shape: readonly number[], data: Float32Array | Int32Array | Uint8Array): string {
    const type: OnnxType = data instanceof Float32Array ? 'float32' : data instanceof Int32Array ? 'int32' : 'uint8'
    this.initializers.set(name, {
      name,
      type,
      shape,
      bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    })
    return name
  }

  frozen(name: string, value: TensorData): object {
    return this.define({ name: this.initializer(name, value.shape, value.data), constant: null })
  }

  emit(op: string, inputs: readonly string[], attributes: Record<string, Attribute>, domain = ''): string {
    const output = this.fresh(op)
    this.nodes.push({ op, domain, inputs, outputs: [output], attributes })
    return output
  }

  /**
   * Selects one of two values [*, columns] at run time. A branch returns the name of its value; the nodes that it
   * emits are local to the branch and must not be shared.
   */
  choose(condition: string, columns: number, then: () => string, otherwise: () => string): string {
    const around = this.nodes
    const branch = (make: () => string): { branch: OnnxBranch } => {
      this.nodes = []
      const name = make()
      return {
        branch: {
          name: this.fresh('branch'),
          nodes: this.nodes,
          output: { name, type: 'float32', shape: [`${name}_0`, columns] },
        },
      }
    }
    try {
      const branches = { then_branch: branch(then), else_branch: branch(otherwise) }
      this.nodes = around
      return this.emit('If', [condition], branches)
    } finally {
      this.nodes = around
    }
  }

  emitMany(op: string, inputs: readonly string[], count: number, attributes: Record<string, Attribute>): string[] {
    const outputs = Array.from({ length: count }, () => this.fresh(op))
    this.nodes.push({ op, domain: '', inputs, outputs, attributes })
    return outputs
  }

  /** A traced size as fixed factor × named dimensions. */
  factors(size: number): { fixed: number; names: string[] } {
    let fixed = size
    const names: string[] = []
    if (size === 0) return { fixed, names }
    for (const [name, { prime }] of this.dimensions) {
      while (fixed % prime === 0) {
        fixed /= prime
        names.push(name)
      }
    }
    return { fixed, names }
  }

  /** int64[1] holding the run's value of a traced size. */
  private sizeTensor(size: number): string {
    const { fixed, names } = this.factors(size)
    return this.once(`size:${size}`, () => {
      let value = fixed === 1 && names.length > 0 ? null : this.int64([fixed])
      for (const name of names) {
        const dimension = this.dimensions.get(name)
        if (!dimension) throw new Error(`no dimension ${name}`)
        const one = this.once(`dim:${name}`, () =>
          this.emit('Shape', [dimension.input], { start: dimension.axis, end: dimension.axis + 1 }),
        )
        value = value === null ? one : this.emit('Mul', [value, one], {})
      }
      if (value === null) throw new Error('unreachable: a size without factors')
      return value
    })
  }

  /** int64[rank]: sizes as they will be at run time. */
  shapeTensor(sizes: readonly number[]): string {
    if (sizes.every((size) => this.factors(size).names.length === 0)) return this.int64(sizes)
    if (sizes.length === 1 && sizes[0] !== undefined) return this.sizeTensor(sizes[0])
    return this.once(`shape:${sizes.join()}`, () =>
      this.emit(
        'Concat',
        sizes.map((size) => this.sizeTensor(size)),
        { axis: 0 },
      ),
    )
  }

  /** Target of a Reshape: like `shapeTensor`, but one unknown size may be left to be inferred. */
  reshapeTarget(sizes: readonly number[]): string {
    const unknown = sizes.filter((size) => this.factors(size).names.length > 0).length
    if (unknown === 1) return this.int64(sizes.map((size) => (this.factors(size).names.length > 0 ? -1 : size)))
    return this.shapeTensor(sizes)
  }
}

let current: Tracer | null = null

/** Makes `next` the graph that kernels append to; null when the trace is over. */
export function setTracer(next: Tracer | null): void {
  if (next && current) throw new Error('traces cannot be nested')
  current = next
}

/** The graph that is being traced. */
export function tracer(): Tracer {
  if (!current) throw new Error('a kernel of the tracing backend ran outside of a trace')
  return current
}
