/** The ONNX graph under construction, to which the kernels of the tracing backend append nodes (trace.ts). */
import * as tf from '../tensors.ts'
import type { PackedTensor } from '../weights.ts'
import type { Attribute, OnnxBranch, OnnxInitializer, OnnxNode, OnnxType } from './onnx-writer.ts'
import type { TensorData } from './backend.ts'

export type Dtype = 'float32' | 'int32' | 'bool'

/**
 * A traced tensor: the name of a graph value, or a constant that has no name yet. `uniform`: the value of all elements
 * if they are equal; `data` then may hold one element only.
 */
type Traced = {
  name: string | null
  constant: { data: Float32Array | Int32Array | Uint8Array; uniform: number | null } | null
}

/** The builder of one graph. */
export class Tracer {
  nodes: OnnxNode[] = []
  /** Constants in 4-bit blocks by name; null for a constant without that form. */
  readonly packed: (name: string) => PackedTensor | null
  readonly initializers = new Map<string, OnnxInitializer>()
  private readonly values = new WeakMap<object, Traced>()
  private readonly shared = new Map<string, string>()
  private count = 0
  /**
   * By name of the dimension: the prime that stands for its size, and the input and axis that have this size in a run.
   */
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
    if (!value) throw new Error('the traced program uses a tensor of another backend')
    return value
  }

  /**
   * The name of the graph value of a tensor. A constant is added to the graph here, as an initializer, or as an Expand
   * node if it is uniform and has more than one element.
   */
  nameOf(info: tf.TensorInfo): string {
    const value = this.traced(info.dataId)
    if (value.name !== null) return value.name
    const constant = value.constant
    if (!constant) throw new Error('a traced tensor has neither a name nor a value')
    const dtype = info.dtype as Dtype
    if (constant.uniform !== null && info.shape.length > 0 && tf.util.sizeFromShape(info.shape) > 1) {
      const scalar = this.small(dtype, [], Float32Array.of(constant.uniform), dtype)
      value.name = this.once(`fill:${scalar}:${info.shape.join()}`, () =>
        this.emit('Expand', [scalar, this.shapeTensor(info.shape)], {}),
      )
    } else {
      if (info.shape.some((size) => this.factors(size).names.length > 0))
        throw new Error(`a constant of shape [${info.shape.join()}] has a named dimension, which is not supported`)
      value.name = this.small(dtype, info.shape, constant.data, dtype)
    }
    return value.name
  }

  /** An initializer for a small constant; equal constants share one. */
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

  /** Returns the value that was created under `key`; creates it at the first call. */
  private once(key: string, create: () => string): string {
    let name = this.shared.get(key)
    if (name === undefined) {
      name = create()
      this.shared.set(key, name)
    }
    return name
  }

  /** An initializer for a large constant; it references the caller's bytes and does not copy them. */
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
   * An If node that selects one of two values [*, columns] at run time. A branch returns the name of its value; nodes
   * emitted by a branch are local to it and must not be used outside.
   */
  choose(condition: string, columns: number, then: () => string, otherwise: () => string): string {
    const outerNodes = this.nodes
    const branch = (build: () => string): { branch: OnnxBranch } => {
      this.nodes = []
      const name = build()
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
      this.nodes = outerNodes
      return this.emit('If', [condition], branches)
    } finally {
      this.nodes = outerNodes
    }
  }

  emitMany(op: string, inputs: readonly string[], count: number, attributes: Record<string, Attribute>): string[] {
    const outputs = Array.from({ length: count }, () => this.fresh(op))
    this.nodes.push({ op, domain: '', inputs, outputs, attributes })
    return outputs
  }

  /** A traced size as a fixed factor times named dimensions. */
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

  /** An int64[1] value: the size at run time that a traced size stands for. */
  private sizeTensor(size: number): string {
    const { fixed, names } = this.factors(size)
    return this.once(`size:${size}`, () => {
      let value = fixed === 1 && names.length > 0 ? null : this.int64([fixed])
      for (const name of names) {
        const dimension = this.dimensions.get(name)
        if (!dimension) throw new Error(`there is no dimension ${name}`)
        const runSize = this.once(`dim:${name}`, () =>
          this.emit('Shape', [dimension.input], { start: dimension.axis, end: dimension.axis + 1 }),
        )
        value = value === null ? runSize : this.emit('Mul', [value, runSize], {})
      }
      if (value === null) throw new Error(`unreachable: the size ${size} has no factors`)
      return value
    })
  }

  /** An int64[rank] value: the shape at run time. */
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

  /** The shape input of a Reshape: like `shapeTensor`, but a single unknown size becomes −1, which Reshape infers. */
  reshapeTarget(sizes: readonly number[]): string {
    const unknown = sizes.filter((size) => this.factors(size).names.length > 0).length
    if (unknown === 1) return this.int64(sizes.map((size) => (this.factors(size).names.length > 0 ? -1 : size)))
    return this.shapeTensor(sizes)
  }
}

let current: Tracer | null = null

/** Sets the graph that kernels append to; null ends the trace. Traces cannot be nested. */
export function setTracer(next: Tracer | null): void {
  if (next && current) throw new Error('a trace is already running; traces cannot be nested')
  current = next
}

/** The graph of the running trace. */
export function tracer(): Tracer {
  if (!current) throw new Error('a kernel of the tracing backend was called outside a trace')
  return current
}
