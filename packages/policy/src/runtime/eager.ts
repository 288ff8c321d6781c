/** Programs run as they stand, operation by operation, by a backend of TensorFlow.js. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as tf from '../tensors.ts'
import type { Backend, Compiled, Feeds, Program, TensorData } from './backend.ts'

/**
 * `library`: the backend's name in TensorFlow.js. `frozen`, `thawed`: told of a tensor that keeps its values, and
 * before it is disposed.
 */
export type EagerOptions = {
  name: Backend['name']
  library: string
  build: string
  threads: number
  frozen?: (tensor: tf.Tensor) => void
  thawed?: (tensor: tf.Tensor) => void
}

const upload = (value: TensorData): tf.Tensor =>
  value.data instanceof Float32Array
    ? tf.tensor(value.data, [...value.shape], 'float32')
    : tf.tensor(value.data, [...value.shape], 'int32')

export class EagerBackend implements Backend {
  readonly name: Backend['name']
  readonly threads: number
  readonly build: string
  private readonly eager: EagerOptions
  /** Frozen tensors by their array: programs share them. */
  private readonly frozen = new Map<TensorData['data'], tf.Tensor>()

  constructor(eager: EagerOptions) {
    this.eager = eager
    this.name = eager.name
    this.threads = eager.threads
    this.build = eager.build
  }

  /** Another runtime in this thread may have chosen its own since. */
  private async choose(): Promise<void> {
    if (tf.getBackend() !== this.eager.library) await tf.setBackend(this.eager.library)
  }

  async compile(program: Program): Promise<Compiled> {
    const constant = (name: string): tf.Tensor => {
      const value = program.constants.get(name)
      if (!value) throw new Error(`no constant ${name}`)
      let tensor = this.frozen.get(value.data)
      if (!tensor) {
        tensor = tf.keep(upload(value))
        this.frozen.set(value.data, tensor)
        this.eager.frozen?.(tensor)
      }
      return tensor
    }
    return {
      run: async (feeds: Feeds, only?: readonly string[]) => {
        // All below is one block of arithmetic: what the thread is told is heard before it, or never.
        await nextTurn()
        await this.choose()
        const out: Record<string, { shape: number[]; data: Float32Array }> = {}
        tf.tidy(() => {
          // All at once and here: an upload within a gradient would be disposed with its tape.
          const inputs = new Map(
            program.inputs.map(({ name }) => {
              const value = feeds[name]
              if (!value) throw new Error(`${program.name}: no input ${name}`)
              return [name, upload(value)]
            }),
          )
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
    if (this.frozen.size > 0) await this.choose()
    for (const tensor of this.frozen.values()) {
      this.eager.thawed?.(tensor)
      tensor.dispose()
    }
    this.frozen.clear()
  }
}
