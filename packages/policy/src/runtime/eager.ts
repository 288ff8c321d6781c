/** Runs programs operation by operation on a backend of TensorFlow.js, without building a graph. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import * as tf from '../tensors.ts'
import type { Backend, Compiled, Feeds, Program, TensorData } from './backend.ts'

/**
 * `library`: the name of the backend in TensorFlow.js. `onFreeze` is called with each constant after its upload,
 * `onUnfreeze` before it is disposed.
 */
type EagerOptions = {
  name: Backend['name']
  library: string
  build: string
  threads: number
  onFreeze?: (tensor: tf.Tensor) => void
  onUnfreeze?: (tensor: tf.Tensor) => void
}

const upload = (value: TensorData): tf.Tensor =>
  value.data instanceof Float32Array
    ? tf.tensor(value.data, [...value.shape], 'float32')
    : tf.tensor(value.data, [...value.shape], 'int32')

export class EagerBackend implements Backend {
  readonly name: Backend['name']
  readonly threads: number
  readonly build: string
  private readonly options: EagerOptions
  /** Uploaded constants by their array; programs with the same array share the tensor. */
  private readonly frozen = new Map<TensorData['data'], tf.Tensor>()

  constructor(options: EagerOptions) {
    this.options = options
    this.name = options.name
    this.threads = options.threads
    this.build = options.build
  }

  /** The current backend is global to the thread; another runtime may have changed it. */
  private async selectBackend(): Promise<void> {
    if (tf.getBackend() !== this.options.library) await tf.setBackend(this.options.library)
  }

  async compile(program: Program): Promise<Compiled> {
    const constant = (name: string): tf.Tensor => {
      const value = program.constants.get(name)
      if (!value) throw new Error(`${program.name}: there is no constant ${name}`)
      let tensor = this.frozen.get(value.data)
      if (!tensor) {
        tensor = tf.keep(upload(value))
        this.frozen.set(value.data, tensor)
        this.options.onFreeze?.(tensor)
      }
      return tensor
    }
    return {
      run: async (feeds: Feeds, only?: readonly string[]) => {
        // The computation below is synchronous; messages to the thread are received before it starts.
        await yieldToEventLoop()
        await this.selectBackend()
        const out: Record<string, { shape: number[]; data: Float32Array }> = {}
        tf.tidy(() => {
          // Uploaded before the program runs: a tensor created inside a gradient is disposed when the gradient ends.
          const inputs = new Map(
            program.inputs.map(({ name }) => {
              const value = feeds[name]
              if (!value) throw new Error(`${program.name}: the input ${name} is missing`)
              return [name, upload(value)]
            }),
          )
          const input = (name: string): tf.Tensor => {
            const tensor = inputs.get(name)
            if (!tensor) throw new Error(`${program.name}: the input ${name} is missing`)
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
    if (this.frozen.size > 0) await this.selectBackend()
    for (const tensor of this.frozen.values()) {
      this.options.onUnfreeze?.(tensor)
      tensor.dispose()
    }
    this.frozen.clear()
  }
}
