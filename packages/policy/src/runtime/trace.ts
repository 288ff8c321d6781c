/**
 * A TensorFlow.js backend that computes nothing: every kernel appends nodes to an ONNX graph. A program
 * that runs on it, gradients included, leaves behind the graph of what it would have computed.
 *
 * Named dimensions. TensorFlow.js wants numbers for sizes, so a named dimension is traced as a prime that
 * divides no fixed size of the program; wherever a size is needed at run time, its prime factors say which
 * of the run's dimensions it is made of. Sums of named dimensions cannot be recognised and must not be
 * reshaped (concatenation along an axis and splitting it again is fine).
 */
import * as tf from '../tensors.ts'
import type { Attribute, OnnxGraph, OnnxNode, OnnxValue } from './onnx-writer.ts'
import type { Program } from './backend.ts'
import { TRACE_KERNELS } from './trace-kernels.ts'
import { Tracer, setTracer, tracer } from './tracer.ts'
import type { Dtype } from './tracer.ts'

export const TRACE_BACKEND = 'instar-trace'

/** Before the names of a graph's outputs, which may be called like its inputs. */
export const OUTPUT = 'out:'

const PRIMES = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]

class TraceBackend extends tf.KernelBackend {
  override write(values: tf.backend_util.BackendValues, _shape: number[], dtype: tf.DataType): object {
    if (!values) throw new Error('a traced tensor needs its values')
    let data: Float32Array | Int32Array | Uint8Array
    if (dtype === 'float32')
      data = values instanceof Float32Array ? values : Float32Array.from(values as ArrayLike<number>)
    else if (dtype === 'int32')
      data = values instanceof Int32Array ? values : Int32Array.from(values as ArrayLike<number>)
    else if (dtype === 'bool') data = Uint8Array.from(values as ArrayLike<number>)
    else throw new Error(`tensors of type ${dtype} cannot be traced`)
    const first = data[0]
    const uniform = first !== undefined && data.every((value) => value === first) ? first : null
    return tracer().define({ name: null, constant: { data, uniform } })
  }
  override disposeData(): boolean {
    return true
  }
  override incRef(): void {}
  override refCount(): number {
    return 1
  }
  override numDataIds(): number {
    return 0
  }
  override memory(): { unreliable: boolean } {
    return { unreliable: true }
  }
  override floatPrecision(): 16 | 32 {
    return 32
  }
  override epsilon(): number {
    return 1e-7
  }
  override timerAvailable(): boolean {
    return false
  }
  override dispose(): void {}
  override readSync(): never {
    throw new Error('a traced program may not read tensors')
  }
  override read(): never {
    throw new Error('a traced program may not read tensors')
  }
}

let registered = false
function register(): void {
  if (registered) return
  registered = true
  tf.registerBackend(TRACE_BACKEND, () => new TraceBackend(), 0)
  for (const [kernelName, kernelFunc] of Object.entries(TRACE_KERNELS))
    tf.registerKernel({ kernelName, backendName: TRACE_BACKEND, kernelFunc })
}

/** What a node reads, its branches included. */
function reads(node: OnnxNode): string[] {
  const inside = (value: Attribute): string[] =>
    typeof value === 'object' && 'branch' in value ? value.branch.nodes.flatMap(reads) : []
  return [...node.inputs, ...Object.values(node.attributes).flatMap(inside)]
}

/** Removes nodes and initializers whose outputs are not used. */
function prune(graph: OnnxGraph): OnnxGraph {
  const needed = new Set(graph.outputs.map((output) => output.name))
  const nodes: OnnxNode[] = []
  for (let at = graph.nodes.length - 1; at >= 0; at--) {
    const node = graph.nodes[at]
    if (!node || !node.outputs.some((output) => needed.has(output))) continue
    nodes.push(node)
    for (const input of reads(node)) needed.add(input)
  }
  return {
    ...graph,
    nodes: nodes.reverse(),
    initializers: graph.initializers.filter((item) => needed.has(item.name)),
    inputs: graph.inputs,
  }
}

/** Primes for the named dimensions that divide none of the fixed sizes. */
function choosePrimes(program: Program): Map<string, { prime: number; input: string; axis: number }> {
  const fixed: number[] = []
  const names = new Map<string, { input: string; axis: number }>()
  for (const constant of program.constants.values()) fixed.push(...constant.shape)
  for (const input of program.inputs) {
    input.shape.forEach((size, axis) => {
      if (typeof size === 'number') fixed.push(size)
      else if (!names.has(size)) names.set(size, { input: input.name, axis })
    })
  }
  const free = PRIMES.filter((prime) => fixed.every((size) => size % prime !== 0))
  const out = new Map<string, { prime: number; input: string; axis: number }>()
  for (const [name, place] of names) {
    const prime = free.shift()
    if (prime === undefined) throw new Error('too many named dimensions')
    out.set(name, { prime, ...place })
  }
  return out
}

/**
 * Runs the program once on symbols and returns its graph. Every input of the program is an input of the graph, used
 * or not. `packed`: use what the program holds in blocks.
 */
export async function trace(program: Program, packed = false): Promise<OnnxGraph> {
  register()
  await tf.setBackend(TRACE_BACKEND)
  const mine = new Tracer(packed && program.packed ? program.packed : () => null)
  for (const [name, dimension] of choosePrimes(program)) mine.dimensions.set(name, dimension)
  setTracer(mine)
  const outputs: OnnxValue[] = []
  try {
    tf.tidy(() => {
      const inputs = new Map<string, tf.Tensor>()
      for (const input of program.inputs) {
        const shape = input.shape.map((size) =>
          typeof size === 'number' ? size : (mine.dimensions.get(size)?.prime ?? 0),
        )
        inputs.set(
          input.name,
          tf.engine().makeTensorFromTensorInfo({
            dataId: mine.define({ name: input.name, constant: null }),
            shape,
            dtype: input.dtype,
          }),
        )
      }
      const constants = new Map<string, tf.Tensor>()
      const constant = (name: string): tf.Tensor => {
        let tensor = constants.get(name)
        if (!tensor) {
          const value = program.constants.get(name)
          if (!value) throw new Error(`no constant ${name}`)
          tensor = tf.engine().makeTensorFromTensorInfo({
            dataId: mine.frozen(name, value),
            shape: [...value.shape],
            dtype: value.data instanceof Float32Array ? 'float32' : 'int32',
          })
          constants.set(name, tf.keep(tensor))
        }
        return tensor
      }
      const input = (name: string): tf.Tensor => {
        const tensor = inputs.get(name)
        if (!tensor) throw new Error(`no input ${name}`)
        return tensor
      }
      for (const [name, tensor] of Object.entries(program.build(input, constant))) {
        mine.nodes.push({
          op: 'Identity',
          domain: '',
          inputs: [mine.nameOf(tensor)],
          outputs: [`${OUTPUT}${name}`],
          attributes: {},
        })
        const shape = tensor.shape.map((size, axis) => {
          const { names } = mine.factors(size)
          return names.length === 0 ? size : `${name}_${axis}`
        })
        outputs.push({ name: `${OUTPUT}${name}`, type: tensor.dtype as Dtype, shape })
      }
      for (const tensor of constants.values()) tensor.dispose()
    })
    const inputs = program.inputs.map((input): OnnxValue => ({
      name: input.name,
      type: input.dtype,
      shape: input.shape,
    }))
    return prune({
      name: program.name,
      nodes: mine.nodes,
      inputs,
      outputs,
      initializers: [...mine.initializers.values()],
    })
  } finally {
    setTracer(null)
  }
}
