/** Programs run as they stand by TensorFlow.js on its WebAssembly backend, one thread: always there, the reference. */
import { createRequire } from 'node:module'
import * as tf from '@tensorflow/tfjs'
import { setThreadsCount } from '@tensorflow/tfjs-backend-wasm'
import type { Backend, Compiled, Feeds, Program, TensorData } from './backend.ts'
import { freeze, overrideKernels, thaw } from './wasm-kernels.ts'

let ready: Promise<void> | null = null

async function start(): Promise<void> {
  setThreadsCount(1)
  await tf.setBackend('wasm')
  await tf.ready()
  if (tf.getBackend() !== 'wasm') throw new Error('the WebAssembly backend did not start')
  overrideKernels()
}

function upload(value: TensorData): tf.Tensor {
  return value.data instanceof Float32Array ? tf.tensor(value.data, [...value.shape], 'float32') : tf.tensor(value.data, [...value.shape], 'int32')
}

class WasmBackend implements Backend {
  readonly name = 'wasm' as const
  readonly threads = 1
  readonly build: string
  /** Frozen tensors by their array: programs share them. */
  private readonly frozen = new Map<TensorData['data'], tf.Tensor>()

  constructor() {
    const version = (name: string): string => String((createRequire(import.meta.url)(`${name}/package.json`) as { version: unknown }).version)
    this.build = `tfjs-backend-wasm ${version('@tensorflow/tfjs-backend-wasm')}`
  }

  async compile(program: Program): Promise<Compiled> {
    const constant = (name: string): tf.Tensor => {
      const value = program.constants.get(name)
      if (!value) throw new Error(`no constant ${name}`)
      let tensor = this.frozen.get(value.data)
      if (!tensor) {
        tensor = tf.keep(upload(value))
        this.frozen.set(value.data, tensor)
        freeze(tensor)
      }
      return tensor
    }
    return {
      run: async (feeds: Feeds, only?: readonly string[]) => {
        if (tf.getBackend() !== 'wasm') await tf.setBackend('wasm')
        const out: Record<string, { shape: number[]; data: Float32Array }> = {}
        tf.tidy(() => {
          // All at once and here: an upload within a gradient would be disposed with its tape.
          const inputs = new Map(program.inputs.map(({ name }) => {
            const value = feeds[name]
            if (!value) throw new Error(`${program.name}: no input ${name}`)
            return [name, upload(value)]
          }))
          const input = (name: string): tf.Tensor => {
            const tensor = inputs.get(name)
            if (!tensor) throw new Error(`${program.name}: no input ${name}`)
            return tensor
          }
          for (const [name, tensor] of Object.entries(program.build(input, constant))) {
            if (only && !only.includes(name)) continue
            out[name] = { shape: tensor.shape.slice(), data: tensor.dataSync<'float32'>().slice() }
          }
        })
        return out
      },
      dispose: async () => {},
    }
  }

  async dispose(): Promise<void> {
    if (this.frozen.size > 0 && tf.getBackend() !== 'wasm') await tf.setBackend('wasm')
    for (const tensor of this.frozen.values()) {
      thaw(tensor)
      tensor.dispose()
    }
    this.frozen.clear()
  }
}

export async function createWasmBackend(): Promise<Backend> {
  await (ready ??= start())
  return new WasmBackend()
}
