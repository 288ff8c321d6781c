/**
 * Kernels that replace or extend those of the WebAssembly backend, for four reasons: its matrix product is fast only
 * for unbatched matrices that are not transposed (XNNPACK), and gradients use the other forms; slices and splits copy
 * the whole input for each part; segment sums, which the gradient of gather needs, are missing; one-hot with type
 * float32 returns wrong values.
 */
import * as tf from '../tensors.ts'
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm'

type KernelArguments = { inputs: tf.NamedTensorInfoMap; backend: unknown; attrs?: tf.NamedAttrMap }
const { backend_util, util, slice_util } = tf

function input(params: KernelArguments, name: string): tf.TensorInfo {
  const value = params.inputs[name]
  if (!value) throw new Error(`the kernel input ${name} is missing`)
  return value
}

const heap = (backend: BackendWasm, info: tf.TensorInfo): Float32Array | Int32Array =>
  backend.typedArrayFromHeap(info) as Float32Array | Int32Array

/** Transposes [rows, columns] to [columns, rows], in blocks that fit the CPU cache. */
function transposeInto(
  from: Float32Array | Int32Array,
  start: number,
  rows: number,
  columns: number,
  to: Float32Array | Int32Array,
  at: number,
): void {
  const block = 32
  for (let r0 = 0; r0 < rows; r0 += block) {
    const r1 = Math.min(rows, r0 + block)
    for (let c0 = 0; c0 < columns; c0 += block) {
      const c1 = Math.min(columns, c0 + block)
      for (let c = c0; c < c1; c++) {
        let target = at + c * rows + r0
        for (let r = r0; r < r1; r++) to[target++] = from[start + r * columns + c] as number
      }
    }
  }
}

/** Transposes the last two axes of x [batch, rows, columns]; `shape` is the shape of the result. */
function transposed(
  backend: BackendWasm,
  x: tf.TensorInfo,
  batch: number,
  rows: number,
  columns: number,
  shape: number[],
): tf.TensorInfo {
  const out = backend.makeOutput(shape, x.dtype)
  const from = heap(backend, x)
  const to = heap(backend, out)
  for (let b = 0; b < batch; b++) transposeInto(from, b * rows * columns, rows, columns, to, b * rows * columns)
  return out
}

type StockKernel = tf.KernelFunc

/** Frozen tensors by data id, with their cached transpose; null until a product needs it. */
const frozen = new Map<object, tf.TensorInfo | null>()

/** Marks a tensor whose values do not change until `unfreeze`, so that its transpose may be cached. */
export function freeze(tensor: tf.Tensor): void {
  frozen.set(tensor.dataId, null)
}

export function unfreeze(tensor: tf.Tensor): void {
  const cached = frozen.get(tensor.dataId)
  frozen.delete(tensor.dataId)
  const backend: unknown = tf.backend()
  if (cached) (backend as BackendWasm).disposeData(cached.dataId)
}

/** The transpose of a matrix, cached for a frozen tensor. `own`: the caller disposes it. */
function transposeOf(
  backend: BackendWasm,
  x: tf.TensorInfo,
  batch: number,
  rows: number,
  columns: number,
): { info: tf.TensorInfo; own: boolean } {
  const shape = [batch, columns, rows]
  const cached = frozen.get(x.dataId)
  if (cached) return { info: { ...cached, shape }, own: false }
  const info = transposed(backend, x, batch, rows, columns, shape)
  if (cached === null) frozen.set(x.dataId, info)
  return { info, own: cached !== null }
}

/** Transposes the operands where required, then multiplies matrix by matrix on views of them. */
function matMul(stock: StockKernel): tf.KernelFunc {
  return (params) => {
    const backend = params.backend as BackendWasm
    const a = input(params, 'a')
    const b = input(params, 'b')
    const transA = params.attrs?.['transposeA'] === true
    const transB = params.attrs?.['transposeB'] === true
    const rank = a.shape.length
    const batchShape = a.shape.slice(0, -2)
    const batch = util.sizeFromShape(batchShape)
    const same = b.shape.length === rank && b.shape.slice(0, -2).every((size, axis) => size === batchShape[axis])
    if (!same) return stock(params)
    const dims = (x: tf.TensorInfo): [number, number] => [x.shape[rank - 2] ?? 1, x.shape[rank - 1] ?? 1]
    const [ar, ac] = dims(a)
    const [br, bc] = dims(b)
    const [M, K] = transA ? [ac, ar] : [ar, ac]
    const N = transB ? br : bc
    const left = transA ? transposeOf(backend, a, batch, ar, ac) : { info: a, own: false }
    const right = transB ? transposeOf(backend, b, batch, br, bc) : { info: b, own: false }
    const multiply = (x: tf.TensorInfo, y: tf.TensorInfo): tf.TensorInfo =>
      stock({
        inputs: { a: { ...x, shape: [1, M, K] }, b: { ...y, shape: [1, K, N] } },
        backend,
        attrs: { transposeA: false, transposeB: false },
      }) as tf.TensorInfo
    const shape = [...batchShape, M, N]
    let out: tf.TensorInfo
    if (batch === 1) out = { ...multiply(left.info, right.info), shape }
    else {
      out = backend.makeOutput(shape, 'float32')
      for (let at = 0; at < batch; at++) {
        const x = makeView(backend, left.info, at * M * K, M * K)
        const y = makeView(backend, right.info, at * K * N, K * N)
        const product = multiply(x, y)
        heap(backend, out).set(heap(backend, product), at * M * N)
        backend.disposeData(product.dataId)
        dropView(backend, x.dataId)
        dropView(backend, y.dataId)
      }
    }
    if (left.own) backend.disposeData(left.info.dataId)
    if (right.own) backend.disposeData(right.info.dataId)
    return out
  }
}

/** A tensor that shares `size` elements of the memory of `of`, from element `start`. */
function makeView(backend: BackendWasm, of: tf.TensorInfo, start: number, size: number): tf.TensorInfo {
  return backend.makeOutput([size], 'float32', backend.getMemoryOffset(of.dataId) + start * 4)
}

/** Removes a view without freeing the memory that it shares. */
function dropView(backend: BackendWasm, dataId: object): void {
  const { id } = backend.dataIdMap.get(dataId)
  backend.wasm.tfjs.disposeData(id)
  backend.dataIdMap.delete(dataId)
}

function sliceOut(
  backend: BackendWasm,
  x: tf.TensorInfo,
  begin: readonly number[],
  size: readonly number[],
): tf.TensorInfo {
  const out = backend.makeOutput([...size], x.dtype)
  const from = heap(backend, x)
  const to = heap(backend, out)
  const strides = [...util.computeStrides(x.shape), 1]
  const rank = x.shape.length
  // Trailing axes that are taken whole are copied in one run.
  let inner = rank - 1
  while (inner > 0 && size[inner] === x.shape[inner]) inner--
  const run = util.sizeFromShape(size.slice(Math.max(inner, 0)))
  const start = begin.reduce((sum, at, axis) => sum + at * (strides[axis] ?? 1), 0)
  let at = 0
  const copyFrom = (axis: number, offset: number): void => {
    if (axis >= inner) {
      to.set(from.subarray(offset, offset + run), at)
      at += run
      return
    }
    for (let i = 0; i < (size[axis] ?? 1); i++) copyFrom(axis + 1, offset + i * (strides[axis] ?? 1))
  }
  if (util.sizeFromShape([...size]) > 0) copyFrom(0, start)
  return out
}

function slice(stock: StockKernel): tf.KernelFunc {
  return (params) => {
    const x = input(params, 'x')
    if (x.dtype !== 'float32' && x.dtype !== 'int32') return stock(params)
    const [begin = [], size = []] = slice_util.parseSliceParams(
      { ...x } as tf.Tensor,
      params.attrs?.['begin'] as number[],
      params.attrs?.['size'] as number[],
    )
    return sliceOut(params.backend as BackendWasm, x, begin, size)
  }
}

function split(stock: StockKernel): tf.KernelFunc {
  return (params) => {
    const x = input(params, 'x')
    if (x.dtype !== 'float32' && x.dtype !== 'int32') return stock(params)
    const axis = util.parseAxisParam(params.attrs?.['axis'] as number, x.shape)[0] ?? 0
    const sizes = backend_util.prepareSplitSize(
      { ...x } as tf.Tensor,
      params.attrs?.['numOrSizeSplits'] as number | number[],
      axis,
    )
    let start = 0
    return sizes.map((part) => {
      const begin = x.shape.map((_, dim) => (dim === axis ? start : 0))
      start += part
      return sliceOut(
        params.backend as BackendWasm,
        x,
        begin,
        x.shape.map((size, dim) => (dim === axis ? part : size)),
      )
    })
  }
}

function transpose(stock: StockKernel): tf.KernelFunc {
  return (params) => {
    const x = input(params, 'x')
    const perm = params.attrs?.['perm'] as number[]
    const rank = perm.length
    const lastTwo =
      rank >= 2 && perm.every((axis, at) => axis === (at === rank - 1 ? rank - 2 : at === rank - 2 ? rank - 1 : at))
    if (!lastTwo || (x.dtype !== 'float32' && x.dtype !== 'int32')) return stock(params)
    const shape = perm.map((axis) => x.shape[axis] ?? 1)
    const [rows, columns] = [x.shape[rank - 2] ?? 1, x.shape[rank - 1] ?? 1]
    return transposed(params.backend as BackendWasm, x, util.sizeFromShape(x.shape.slice(0, -2)), rows, columns, shape)
  }
}

function segmentSum(params: KernelArguments): tf.TensorInfo {
  const backend = params.backend as BackendWasm
  const x = input(params, 'x')
  const ids = input(params, 'segmentIds')
  const segments = Number(params.attrs?.['numSegments'])
  const width = util.sizeFromShape(x.shape.slice(1))
  const out = backend.makeOutput([segments, ...x.shape.slice(1)], 'float32')
  const [from, to, rows] = [heap(backend, x), heap(backend, out), heap(backend, ids)]
  to.fill(0)
  rows.forEach((segment, row) => {
    for (let i = 0; i < width; i++)
      to[segment * width + i] = (to[segment * width + i] as number) + (from[row * width + i] as number)
  })
  return out
}

/** Gather with batchDims 1 on matrices: out[n, k] = x[n, indices[n, k]]. */
function gather(stock: StockKernel): tf.KernelFunc {
  return (params) => {
    if (Number(params.attrs?.['batchDims'] ?? 0) !== 1) return stock(params)
    const backend = params.backend as BackendWasm
    const x = input(params, 'x')
    const indices = input(params, 'indices')
    if (x.shape.length !== 2 || indices.shape.length !== 2) return stock(params)
    const [rows = 0, picks = 0] = indices.shape
    const columns = x.shape[1] ?? 0
    const out = backend.makeOutput([rows, picks], x.dtype)
    const [from, to, at] = [heap(backend, x), heap(backend, out), heap(backend, indices)]
    for (let i = 0; i < rows * picks; i++) to[i] = from[Math.floor(i / picks) * columns + (at[i] as number)] as number
    return out
  }
}

/** Replaces the stock kernel, which writes int32 bit patterns for every dtype. */
function oneHot(params: KernelArguments): tf.TensorInfo {
  const backend = params.backend as BackendWasm
  const indices = input(params, 'indices')
  const depth = Number(params.attrs?.['depth'])
  const out = backend.makeOutput(
    [...indices.shape, depth],
    (params.attrs?.['dtype'] as tf.DataType | undefined) ?? 'int32',
  )
  const [to, at] = [heap(backend, out), heap(backend, indices)]
  to.fill(Number(params.attrs?.['offValue'] ?? 0))
  at.forEach((index, row) => {
    to[row * depth + index] = Number(params.attrs?.['onValue'] ?? 1)
  })
  return out
}

let overridden = false

/** Registers the kernels above. Call it after the WebAssembly backend has started; later calls have no effect. */
export function overrideKernels(): void {
  if (overridden) return
  overridden = true
  const replace = (kernelName: string, make: (stock: StockKernel) => tf.KernelFunc): void => {
    const stock = tf.getKernel(kernelName, 'wasm')
    tf.unregisterKernel(kernelName, 'wasm')
    tf.registerKernel({ ...stock, kernelFunc: make(stock.kernelFunc) })
  }
  replace('BatchMatMul', matMul)
  replace('Slice', slice)
  replace('SplitV', split)
  replace('Transpose', transpose)
  replace('GatherV2', gather)
  replace('OneHot', () => oneHot)
  tf.registerKernel({ kernelName: 'UnsortedSegmentSum', backendName: 'wasm', kernelFunc: segmentSum })
}
