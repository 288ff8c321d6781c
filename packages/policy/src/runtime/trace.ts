/**
 * A TensorFlow.js backend that computes no values: each kernel appends nodes to an ONNX graph. Running a program on it,
 * gradients included, yields the graph of the program.
 *
 * Named dimensions: TensorFlow.js requires numeric sizes, so a named dimension is traced as a prime that divides no
 * fixed size of the program. Where the graph needs a size at run time, the prime factors of the traced size give the
 * named dimensions to multiply. A sum of named dimensions has no such factors: it may come from a concatenation and be
 * split again, but must not be reshaped.
 */
import * as tf from '../tensors.ts'
import type { Attribute, OnnxGraph, OnnxNode, OnnxValue } from './onnx-writer.ts'
import type { Program } from './backend.ts'
import { TRACE_KERNELS } from './trace-kernels.ts'
import { Tracer, setTracer, tracer } from './tracer.ts'
import type { Dtype } from './tracer.ts'

const TRACE_BACKEND = 'instar-trace'

/** Prefix of the graph's outputs, since an output may have the name of an input. */
export const OUTPUT = 'out:'

const PRIMES = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]

class TraceBackend extends tf.KernelBackend {
  override write(values: tf.backend_util.BackendValues, _shape: number[], dtype: tf.DataType): object {
    if (!values) throw new Error('a tensor cannot be traced without values')
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
    throw new Error('a program that is traced must not read tensors')
  }
  override read(): never {
    throw new Error('a program that is traced must not read tensors')
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

/** The names of the values that a node uses, those used in its branches included. */
function inputsOf(node: OnnxNode): string[] {
  const branchInputs = (value: Attribute): string[] =>
    typeof value === 'object' && 'branch' in value ? value.branch.nodes.flatMap(inputsOf) : []
  return [...node.inputs, ...Object.values(node.attributes).flatMap(branchInputs)]
}

/** Removes nodes and initializers that no output depends on. */
function prune(graph: OnnxGraph): OnnxGraph {
  const needed = new Set(graph.outputs.map((output) => output.name))
  const nodes: OnnxNode[] = []
  for (let at = graph.nodes.length - 1; at >= 0; at--) {
    const node = graph.nodes[at]
    if (!node || !node.outputs.some((output) => needed.has(output))) continue
    nodes.push(node)
    for (const input of inputsOf(node)) needed.add(input)
  }
  return {
    ...graph,
    nodes: nodes.reverse(),
    initializers: graph.initializers.filter((item) => needed.has(item.name)),
    inputs: graph.inputs,
  }
}

/** Assigns to each named dimension a prime that divides no fixed size. */
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
  const count = free.length
  const out = new Map<string, { prime: number; input: string; axis: number }>()
  for (const [name, position] of names) {
    const prime = free.shift()
    if (prime === undefined)
      throw new Error(`${program.name} has ${names.size} named dimensions; ${count} primes divide no fixed size`)
    out.set(name, { prime, ...position })
  }
  return out
}

/**
 * Traces the program and returns its graph. Every input of the program is an input of the graph, even if unused.
 * `packed`: use the 4-bit blocks of the program's constants.
 */
export async function trace(program: Program, packed = false): Promise<OnnxGraph> {
  register()
  await tf.setBackend(TRACE_BACKEND)
  const graph = new Tracer(packed && program.packed ? program.packed : () => null)
  for (const [name, dimension] of choosePrimes(program)) graph.dimensions.set(name, dimension)
  setTracer(graph)
  const outputs: OnnxValue[] = []
  try {
    tf.tidy(() => {
      const inputs = new Map<string, tf.Tensor>()
      for (const input of program.inputs) {
        const shape = input.shape.map((size) =>
          typeof size === 'number' ? size : (graph.dimensions.get(size)?.prime ?? 0),
        )
        inputs.set(
          input.name,
          tf.engine().makeTensorFromTensorInfo({
            dataId: graph.define({ name: input.name, constant: null }),
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
          if (!value) throw new Error(`${program.name}: there is no constant ${name}`)
          tensor = tf.engine().makeTensorFromTensorInfo({
            dataId: graph.frozen(name, value),
            shape: [...value.shape],
            dtype: value.data instanceof Float32Array ? 'float32' : 'int32',
          })
          constants.set(name, tf.keep(tensor))
        }
        return tensor
      }
      const input = (name: string): tf.Tensor => {
        const tensor = inputs.get(name)
        if (!tensor) throw new Error(`${program.name}: there is no input ${name}`)
        return tensor
      }
      for (const [name, tensor] of Object.entries(program.build(input, constant))) {
        graph.nodes.push({
          op: 'Identity',
          domain: '',
          inputs: [graph.nameOf(tensor)],
          outputs: [`${OUTPUT}${name}`],
          attributes: {},
        })
        const shape = tensor.shape.map((size, axis) => {
          const { names } = graph.factors(size)
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
      nodes: graph.nodes,
      inputs,
      outputs,
      initializers: [...graph.initializers.values()],
    })
  } finally {
    setTracer(null)
  }
}
