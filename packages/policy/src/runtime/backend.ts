/**
 * The interface of the arithmetic backends: a program of TensorFlow.js operations is compiled once and run many times
 * on plain arrays. `onnx.ts` traces it into an ONNX graph; `wasm.ts` and `tfjs-node/` run it operation by operation.
 */
import type * as tf from '../tensors.ts'
import type { PackedTensor } from '../weights.ts'

/** `data` is row-major in `shape`. */
export type TensorData = { shape: readonly number[]; data: Float32Array | Int32Array }

/** A name in `shape` is a dimension whose size may differ between runs; within a run equal names have equal sizes. */
export type InputSpec = { name: string; dtype: 'float32' | 'int32'; shape: readonly (number | string)[] }

/**
 * `build` uses operations and gradients of TensorFlow.js only. It must not read tensors, and must use the size of a
 * named dimension in shapes only, since a traced program is built once for all sizes. `constants` do not change: a
 * backend uploads each array once and shares it between programs. `packed` returns a constant in 4-bit blocks, if there
 * is such a form; a backend may use either form.
 */
export type Program = {
  name: string
  inputs: readonly InputSpec[]
  constants: ReadonlyMap<string, TensorData>
  packed?: (name: string) => PackedTensor | null
  build(inputs: (name: string) => tf.Tensor, constants: (name: string) => tf.Tensor): Record<string, tf.Tensor>
}

export type Feeds = Record<string, TensorData>

export interface Compiled {
  /**
   * Returns the outputs by name: all, or those in `only`. The returned arrays belong to the caller. The feeds are not
   * changed; they must stay unchanged until the promise resolves.
   */
  run(feeds: Feeds, only?: readonly string[]): Promise<Record<string, { shape: number[]; data: Float32Array }>>
  dispose(): Promise<void>
}

export interface Backend {
  readonly name: 'onnx' | 'wasm' | 'tfjs-node'
  /** Versions of the libraries and settings that determine the bits of the results; part of the fingerprint. */
  readonly build: string
  readonly threads: number
  compile(program: Program): Promise<Compiled>
  dispose(): Promise<void>
}
