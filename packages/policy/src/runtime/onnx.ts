/** The backend `onnx`: traces programs into ONNX graphs and runs them with onnxruntime-node on the CPU. */
import { createRequire } from 'node:module'
import { closeSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import type * as Ort from 'onnxruntime-node'
import type { Backend, Compiled, Feeds, Program } from './backend.ts'
import { instructionSet } from './fingerprint.ts'
import { OUTPUT, trace } from './trace.ts'
import { writeOnnx } from './onnx-writer.ts'
import type { OnnxGraph, OnnxInitializer } from './onnx-writer.ts'

/**
 * If the constants of a model have at least this many bytes in total, they are stored as external data: a protobuf
 * message is limited to 2 GB and is copied when it is read.
 */
const EXTERNAL_BYTES = 64 * 1024 * 1024
/** Constants of at most this many bytes always stay inside the model. */
const EXTERNAL_EACH = 4096

/**
 * Whether onnxruntime has a fast kernel for float32 times 4-bit blocks on this CPU (measured); without one the product
 * takes ten times as long as with a float32 matrix.
 */
const FAST_BLOCKS = /^linux-x64 .*\bavx512f\b/.test(instructionSet())

/** A file of constants that all sessions of a backend map into memory; each array is written once. */
class WeightFile {
  readonly folder: string
  private readonly file: number
  private readonly offsets = new WeakMap<ArrayBufferLike, Map<number, number>>()
  private end = 0
  readonly name = 'weights.bin'

  constructor() {
    this.folder = makeTemporaryFolder('onnx')
    this.file = openSync(join(this.folder, this.name), 'w')
  }

  /** Writes the bytes, unless they are in the file already, and returns the initializer with a reference to them. */
  write(item: OnnxInitializer): OnnxInitializer {
    let views = this.offsets.get(item.bytes.buffer)
    if (!views) this.offsets.set(item.bytes.buffer, (views = new Map<number, number>()))
    let offset = views.get(item.bytes.byteOffset)
    if (offset === undefined) {
      offset = Math.ceil(this.end / 4096) * 4096
      for (let at = 0; at < item.bytes.length;)
        at += writeSync(this.file, item.bytes, at, Math.min(item.bytes.length - at, 1 << 28), offset + at)
      this.end = offset + item.bytes.length
      views.set(item.bytes.byteOffset, offset)
    }
    return { ...item, external: { file: this.name, offset } }
  }

  remove(): void {
    closeSync(this.file)
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/**
 * `prepack: false` keeps one copy of the weights in memory instead of two and is slower. `blocks`: multiply by 4-bit
 * blocks where a program has them; default: if the CPU has a fast kernel.
 */
type OnnxOptions = { threads: number; prepack?: boolean; blocks?: boolean }

class OnnxBackend implements Backend {
  readonly name = 'onnx' as const
  readonly build: string
  readonly threads: number
  private readonly ort: typeof Ort
  private readonly prepack: boolean
  private readonly blocks: boolean
  private weights: WeightFile | null = null
  private readonly open = new Set<Compiled>()

  constructor(ort: typeof Ort, options: OnnxOptions) {
    this.ort = ort
    this.threads = options.threads
    this.prepack = options.prepack ?? true
    this.blocks = options.blocks ?? FAST_BLOCKS
    const version = (name: string): string =>
      String((createRequire(import.meta.url)(`${name}/package.json`) as { version: unknown }).version)
    this.build = `onnxruntime-node ${version('onnxruntime-node')}, tfjs-core ${version('@tensorflow/tfjs-core')}`
  }

  async compile(program: Program): Promise<Compiled> {
    const graph = await trace(program, this.blocks)
    const session = await this.session(graph)
    const outputs = graph.outputs.map((output) => output.name)
    const specs = new Map(program.inputs.map((input) => [input.name, input]))
    const ort = this.ort
    // A tensor object is reused while the caller passes the same array, as it does for adapters and caches.
    const tensors = new Map<string, { data: unknown; key: string; tensor: Ort.Tensor }>()
    const compiled: Compiled = {
      async run(feeds: Feeds, only?: readonly string[]) {
        const inputs: Record<string, Ort.Tensor> = {}
        for (const [name, spec] of specs) {
          const value = feeds[name]
          if (!value) throw new Error(`${program.name}: the input ${name} is missing`)
          const key = value.shape.join()
          let cached = tensors.get(name)
          if (!cached || cached.data !== value.data || cached.key !== key) {
            const tensor =
              spec.dtype === 'float32'
                ? new ort.Tensor('float32', value.data as Float32Array, value.shape)
                : new ort.Tensor('int32', value.data as Int32Array, value.shape)
            cached = { data: value.data, key, tensor }
            tensors.set(name, cached)
          }
          inputs[name] = cached.tensor
        }
        const fetches = only ? only.map((name) => `${OUTPUT}${name}`) : outputs
        const results = await session.run(inputs, fetches)
        const out: Record<string, { shape: number[]; data: Float32Array }> = {}
        for (const name of fetches) {
          const tensor = results[name]
          if (!tensor) throw new Error(`${program.name}: the output ${name} is missing`)
          out[name.slice(OUTPUT.length)] = { shape: [...tensor.dims], data: tensor.data as Float32Array }
        }
        return out
      },
      dispose: async () => {
        if (!this.open.delete(compiled)) return
        tensors.clear()
        await session.release()
      },
    }
    this.open.add(compiled)
    return compiled
  }

  private async session(graph: OnnxGraph): Promise<Ort.InferenceSession> {
    const options: Ort.InferenceSession.SessionOptions = {
      executionProviders: ['cpu'],
      intraOpNumThreads: this.threads,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      // A pattern allocates the memory of a whole run as one block beside what the first run of that shape took.
      enableMemPattern: graph.name !== 'training',
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      extra: {
        session: {
          intra_op: { allow_spinning: '0' },
          inter_op: { allow_spinning: '0' },
          disable_prepacking: this.prepack ? '0' : '1',
        },
      },
    }
    const bytes = graph.initializers.reduce((sum, item) => sum + item.bytes.length, 0)
    if (bytes < EXTERNAL_BYTES) return this.ort.InferenceSession.create(writeOnnx(graph), options)
    const file = (this.weights ??= new WeightFile())
    const initializers = graph.initializers.map((item) => (item.bytes.length > EXTERNAL_EACH ? file.write(item) : item))
    const path = join(file.folder, `${graph.name}.onnx`)
    writeFileSync(path, writeOnnx({ ...graph, initializers }))
    return this.ort.InferenceSession.create(path, options)
  }

  async dispose(): Promise<void> {
    for (const compiled of this.open) await compiled.dispose()
    this.weights?.remove()
    this.weights = null
  }
}

/** Throws if onnxruntime-node is not installed or its binary does not load. */
export async function createOnnxBackend(options: OnnxOptions): Promise<Backend> {
  return new OnnxBackend(await import('onnxruntime-node'), options)
}
