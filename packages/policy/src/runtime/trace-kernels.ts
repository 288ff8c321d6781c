/** The kernels of the tracing backend: each appends ONNX nodes (opset 18) and returns the shape of the result. */
import * as tf from '../tensors.ts'
import { PACKED_BLOCK } from '../weights.ts'
import type { PackedTensor } from '../weights.ts'
import { tracer } from './tracer.ts'
import type { Attribute } from './onnx-writer.ts'

type Inputs = tf.NamedTensorInfoMap
type Attrs = Record<string, unknown>
const { broadcast_util, backend_util, util } = tf

function input(inputs: Inputs, name: string): tf.TensorInfo {
  const value = inputs[name]
  if (!value) throw new Error(`the kernel input ${name} is missing`)
  return value
}

function named(name: string, shape: readonly number[], dtype: tf.DataType): tf.TensorInfo {
  return { dataId: tracer().define({ name, constant: null }), shape: [...shape], dtype }
}

/** A tensor with the value of `of`. */
function alias(of: tf.TensorInfo, shape: readonly number[] = of.shape): tf.TensorInfo {
  return { dataId: tracer().define(tracer().traced(of.dataId)), shape: [...shape], dtype: of.dtype }
}

function filled(value: number, shape: readonly number[], dtype: tf.DataType): tf.TensorInfo {
  const data = dtype === 'float32' ? Float32Array.of(value) : Int32Array.of(value)
  return { dataId: tracer().define({ name: null, constant: { data, uniform: value } }), shape: [...shape], dtype }
}

function uniform(of: tf.TensorInfo): number | null {
  return tracer().traced(of.dataId).constant?.uniform ?? null
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis])
}

function emit(
  op: string,
  inputs: readonly tf.TensorInfo[],
  shape: readonly number[],
  dtype: tf.DataType,
  attributes: Record<string, Attribute> = {},
): tf.TensorInfo {
  const graph = tracer()
  return named(
    graph.emit(
      op,
      inputs.map((item) => graph.nameOf(item)),
      attributes,
    ),
    shape,
    dtype,
  )
}

function unary(op: string): (params: { inputs: Inputs }) => tf.TensorInfo {
  return ({ inputs }) => {
    const x = input(inputs, 'x')
    return emit(op, [x], x.shape, x.dtype)
  }
}

/**
 * `neutral`: the constant right operand (with `commutes`, either operand) for which the other operand is the result.
 */
function binary(
  op: string,
  result: 'same' | 'bool',
  neutral: number | null = null,
  commutes = false,
): (params: { inputs: Inputs }) => tf.TensorInfo {
  const expanded = (operand: tf.TensorInfo, shape: readonly number[]): tf.TensorInfo => {
    if (sameShape(operand.shape, shape)) return alias(operand)
    const graph = tracer()
    return named(graph.emit('Expand', [graph.nameOf(operand), graph.shapeTensor(shape)], {}), shape, operand.dtype)
  }
  return ({ inputs }) => {
    const a = input(inputs, 'a')
    const b = input(inputs, 'b')
    const shape = broadcast_util.assertAndGetBroadcastShape(a.shape, b.shape)
    if (neutral !== null && uniform(b) === neutral) return expanded(a, shape)
    if (neutral !== null && commutes && uniform(a) === neutral) return expanded(b, shape)
    return emit(op, [a, b], shape, result === 'bool' ? 'bool' : a.dtype)
  }
}

function reduction(op: string): (params: { inputs: Inputs; attrs?: Attrs }) => tf.TensorInfo {
  return ({ inputs, attrs }) => {
    const x = input(inputs, 'x')
    const axis = attrs?.['axis'] ?? attrs?.['reductionIndices']
    const axes = util.parseAxisParam(axis as number | number[], x.shape)
    const keepDims = attrs?.['keepDims'] === true
    const [outShape, reduced] = backend_util.computeOutAndReduceShapes(x.shape, axes)
    if (reduced.length === 0) return alias(x)
    const shape = keepDims ? backend_util.expandShapeToKeepDim(outShape, axes) : outShape
    const graph = tracer()
    const output =
      op === 'ReduceMax' || op === 'ReduceMin' || op === 'ReduceMean' || op === 'ReduceSum'
        ? graph.emit(op, [graph.nameOf(x), graph.int64(axes)], { keepdims: keepDims ? 1 : 0 })
        : ''
    return named(output, shape, x.dtype)
  }
}

function matMul({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const a = input(inputs, 'a')
  const b = input(inputs, 'b')
  const transA = attrs?.['transposeA'] === true
  const transB = attrs?.['transposeB'] === true
  const rows = a.shape[a.shape.length - (transA ? 1 : 2)] ?? 1
  const columns = b.shape[b.shape.length - (transB ? 2 : 1)] ?? 1
  const batch = broadcast_util.assertAndGetBroadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2))
  const shape = [...batch, rows, columns]
  const packed = a.shape.length === 2 && !transA && transB ? tracer().packed(tracer().nameOf(b)) : null
  if (packed) return named(packedMatMul(a, b, packed), shape, 'float32')
  if (a.shape.length === 2 && b.shape.length === 2)
    return emit('Gemm', [a, b], shape, 'float32', { transA: transA ? 1 : 0, transB: transB ? 1 : 0 })
  if (!transA && !transB) return emit('MatMul', [a, b], shape, 'float32')
  const graph = tracer()
  const output = graph.emit(
    'FusedMatMul',
    [graph.nameOf(a), graph.nameOf(b)],
    { transA: transA ? 1 : 0, transB: transB ? 1 : 0 },
    'com.microsoft',
  )
  return named(output, shape, 'float32')
}

/**
 * x [N, in] · Wᵀ for a W [out, in] that is also available in 4-bit blocks. For N = 1 the graph multiplies by the
 * blocks, which have an eighth of the bytes: w = s·q + m = s·(q − 8) + (m + 8s), hence MatMulNBits on the codes (zero
 * point 8) plus the sum of x over each block times (m + 8s), in float32 and without further quantisation. For N > 1 it
 * multiplies by the float32 matrix, since unpacking the blocks then costs as much as reading it.
 */
function packedMatMul(x: tf.TensorInfo, w: tf.TensorInfo, packed: PackedTensor): string {
  const graph = tracer()
  const name = graph.nameOf(w)
  const inputName = graph.nameOf(x)
  const [N, K] = packed.shape
  const blocks = K / PACKED_BLOCK
  const offsetValues = new Float32Array(blocks * N)
  for (let n = 0; n < N; n++)
    for (let k = 0; k < blocks; k++)
      offsetValues[k * N + n] =
        (packed.minima[n * blocks + k] as number) + 8 * (packed.scales[n * blocks + k] as number)
  const codes = graph.initializer(`${name}.codes`, [N, blocks, PACKED_BLOCK / 2], packed.codes)
  const scales = graph.initializer(`${name}.scales`, [N * blocks], packed.scales)
  const offsets = graph.initializer(`${name}.offsets`, [blocks, N], offsetValues)
  const oneRow = graph.emit('Equal', [graph.shapeTensor([x.shape[0] as number]), graph.int64([1])], {})
  return graph.choose(
    oneRow,
    N,
    () => {
      const product = graph.emit(
        'MatMulNBits',
        [inputName, codes, scales],
        { K, N, bits: 4, block_size: PACKED_BLOCK, accuracy_level: 1 },
        'com.microsoft',
      )
      const sums = graph.emit(
        'ReduceSum',
        [graph.emit('Reshape', [inputName, graph.int64([1, blocks, PACKED_BLOCK])], {}), graph.int64([2])],
        { keepdims: 0 },
      )
      return graph.emit('Gemm', [sums, offsets, product], {})
    },
    () => graph.emit('Gemm', [inputName, name], { transA: 0, transB: 1 }),
  )
}

function reshape({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  const shape = util.inferFromImplicitShape(attrs?.['shape'] as number[], util.sizeFromShape(x.shape))
  if (sameShape(shape, x.shape)) return alias(x)
  if (uniform(x) !== null) return filled(uniform(x) ?? 0, shape, x.dtype)
  const graph = tracer()
  return named(graph.emit('Reshape', [graph.nameOf(x), graph.reshapeTarget(shape)], {}), shape, x.dtype)
}

function transpose({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  const perm = attrs?.['perm'] as number[]
  const shape = perm.map((axis) => x.shape[axis] ?? 1)
  if (perm.every((axis, at) => axis === at)) return alias(x)
  return emit('Transpose', [x], shape, x.dtype, { perm })
}

function concat({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const parts = Object.values(inputs).filter((item): item is tf.TensorInfo => item !== undefined)
  const first = parts[0]
  if (!first) throw new Error('concat has no inputs')
  const axis = util.parseAxisParam(attrs?.['axis'] as number, first.shape)[0] ?? 0
  const shape = backend_util.computeOutShape(
    parts.map((item) => item.shape),
    axis,
  )
  return parts.length === 1 ? alias(first) : emit('Concat', parts, shape, first.dtype, { axis })
}

function split({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo[] {
  const x = input(inputs, 'x')
  const axis = util.parseAxisParam(attrs?.['axis'] as number, x.shape)[0] ?? 0
  const sizes = backend_util.prepareSplitSize(
    { ...x, shape: x.shape } as tf.Tensor,
    attrs?.['numOrSizeSplits'] as number | number[],
    axis,
  )
  const graph = tracer()
  const outputs = graph.emitMany('Split', [graph.nameOf(x), graph.shapeTensor(sizes)], sizes.length, { axis })
  return outputs.map((name, at) =>
    named(
      name,
      x.shape.map((size, dim) => (dim === axis ? (sizes[at] ?? 0) : size)),
      x.dtype,
    ),
  )
}

function slice({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  const [begin = [], size = []] = tf.slice_util.parseSliceParams(
    { ...x } as tf.Tensor,
    attrs?.['begin'] as number[],
    attrs?.['size'] as number[],
  )
  const axes = x.shape.map((_, axis) => axis).filter((axis) => size[axis] !== x.shape[axis])
  if (axes.length === 0) return alias(x)
  const graph = tracer()
  const starts = axes.map((axis) => begin[axis] ?? 0)
  const ends = axes.map((axis) => (begin[axis] ?? 0) + (size[axis] ?? 0))
  const output = graph.emit(
    'Slice',
    [graph.nameOf(x), graph.shapeTensor(starts), graph.shapeTensor(ends), graph.int64(axes)],
    {},
  )
  return named(output, size, x.dtype)
}

function gather({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  const indices = input(inputs, 'indices')
  const axis = util.parseAxisParam(attrs?.['axis'] as number, x.shape)[0] ?? 0
  const batchDims = Number(attrs?.['batchDims'] ?? 0)
  if (batchDims === 0)
    return emit(
      'Gather',
      [x, indices],
      [...x.shape.slice(0, axis), ...indices.shape, ...x.shape.slice(axis + 1)],
      x.dtype,
      { axis },
    )
  if (batchDims === 1 && axis === 1 && x.shape.length === 2 && indices.shape.length === 2)
    return emit('GatherElements', [x, indices], indices.shape, x.dtype, { axis: 1 })
  throw new Error(`tracing of gather with axis ${axis} and batchDims ${batchDims} is not supported`)
}

function oneHot({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const indices = input(inputs, 'indices')
  const depth = Number(attrs?.['depth'])
  const dtype = (attrs?.['dtype'] as tf.DataType | undefined) ?? 'int32'
  const values = pair(Number(attrs?.['offValue'] ?? 0), Number(attrs?.['onValue'] ?? 1))
  const hot = emit('OneHot', [indices, filled(depth, [], 'int32'), values], [...indices.shape, depth], 'float32', {
    axis: -1,
  })
  return dtype === 'float32' ? hot : castTo(hot, dtype)
}

/** A constant [2] with the values of OneHot. */
function pair(off: number, on: number): tf.TensorInfo {
  return {
    dataId: tracer().define({ name: null, constant: { data: Float32Array.of(off, on), uniform: null } }),
    shape: [2],
    dtype: 'float32',
  }
}

function castTo(x: tf.TensorInfo, dtype: tf.DataType): tf.TensorInfo {
  if (x.dtype === dtype) return alias(x)
  const code = { float32: 1, int32: 6, bool: 9 }[dtype as string]
  if (code === undefined) throw new Error(`tracing of a cast to ${dtype} is not supported`)
  const value = uniform(x)
  return value !== null ? filled(value, x.shape, dtype) : emit('Cast', [x], x.shape, dtype, { to: code })
}

/**
 * out[segment] = Σ of the rows with that segment id: the gradient of gather. onnxruntime adds sequentially, so the
 * result is the same in every run.
 */
function segmentSum({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  const ids = input(inputs, 'segmentIds')
  if (x.shape.length !== 2) throw new Error(`tracing of segment sums supports rank 2 only, not ${x.shape.length}`)
  const shape = [Number(attrs?.['numSegments']), ...x.shape.slice(1)]
  const graph = tracer()
  const column = graph.emit('Reshape', [graph.nameOf(ids), graph.int64([-1, 1])], {})
  const indices = graph.emit('Expand', [column, graph.shapeTensor(x.shape)], {})
  const output = graph.emit('ScatterElements', [graph.nameOf(filled(0, shape, 'float32')), indices, graph.nameOf(x)], {
    axis: 0,
    reduction: 'add',
  })
  return named(output, shape, x.dtype)
}

function select({ inputs }: { inputs: Inputs }): tf.TensorInfo {
  const t = input(inputs, 't')
  return emit('Where', [input(inputs, 'condition'), t, input(inputs, 'e')], t.shape, t.dtype)
}

function softmax({ inputs }: { inputs: Inputs }): tf.TensorInfo {
  const x = input(inputs, 'logits')
  return emit('Softmax', [x], x.shape, x.dtype, { axis: -1 })
}

function clip({ inputs, attrs }: { inputs: Inputs; attrs?: Attrs }): tf.TensorInfo {
  const x = input(inputs, 'x')
  return emit(
    'Clip',
    [x, filled(Number(attrs?.['clipValueMin']), [], 'float32'), filled(Number(attrs?.['clipValueMax']), [], 'float32')],
    x.shape,
    x.dtype,
  )
}

export const TRACE_KERNELS: Record<string, tf.KernelFunc> = {
  Add: binary('Add', 'same', 0, true),
  Sub: binary('Sub', 'same', 0),
  Multiply: binary('Mul', 'same', 1, true),
  RealDiv: binary('Div', 'same', 1),
  Pow: binary('Pow', 'same', 1),
  Maximum: binary('Max', 'same'),
  Minimum: binary('Min', 'same'),
  Equal: binary('Equal', 'bool'),
  Less: binary('Less', 'bool'),
  LessEqual: binary('LessOrEqual', 'bool'),
  Greater: binary('Greater', 'bool'),
  GreaterEqual: binary('GreaterOrEqual', 'bool'),
  LogicalAnd: binary('And', 'bool'),
  LogicalNot: unary('Not'),
  Neg: unary('Neg'),
  Exp: unary('Exp'),
  Log: unary('Log'),
  Sqrt: unary('Sqrt'),
  Abs: unary('Abs'),
  Sign: unary('Sign'),
  Sigmoid: unary('Sigmoid'),
  Tanh: unary('Tanh'),
  Square: ({ inputs }) => {
    const x = input(inputs, 'x')
    return emit('Mul', [x, x], x.shape, x.dtype)
  },
  Rsqrt: ({ inputs }) => {
    const x = input(inputs, 'x')
    return emit('Reciprocal', [emit('Sqrt', [x], x.shape, x.dtype)], x.shape, x.dtype)
  },
  Sum: reduction('ReduceSum'),
  Mean: reduction('ReduceMean'),
  Max: reduction('ReduceMax'),
  Min: reduction('ReduceMin'),
  BatchMatMul: matMul,
  Reshape: reshape,
  ExpandDims: ({ inputs, attrs }) => {
    const x = input(inputs, 'input')
    const dim = Number(attrs?.['dim'])
    const shape = [...x.shape]
    shape.splice(dim < 0 ? dim + x.shape.length + 1 : dim, 0, 1)
    return reshape({ inputs: { x }, attrs: { shape } })
  },
  Transpose: transpose,
  Concat: concat,
  SplitV: split,
  Slice: slice,
  GatherV2: gather,
  OneHot: oneHot,
  UnsortedSegmentSum: segmentSum,
  Select: select,
  Softmax: softmax,
  ClipByValue: clip,
  Cast: ({ inputs, attrs }) => castTo(input(inputs, 'x'), attrs?.['dtype'] as tf.DataType),
  Identity: ({ inputs }) => alias(input(inputs, 'x')),
  ZerosLike: ({ inputs }) => filled(0, input(inputs, 'x').shape, input(inputs, 'x').dtype),
  OnesLike: ({ inputs }) => filled(1, input(inputs, 'x').shape, input(inputs, 'x').dtype),
  Fill: ({ attrs }) =>
    filled(
      Number(attrs?.['value']),
      attrs?.['shape'] as number[],
      (attrs?.['dtype'] as tf.DataType | undefined) ?? 'float32',
    ),
}
