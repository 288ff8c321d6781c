/**
 * What the model needs of something that computes: a program of TensorFlow.js operations, compiled once
 * and run many times on plain arrays. `onnx.ts` traces it into a graph, `wasm.ts` and `tfjs-node/` run it as it stands.
 */
import type * as tf from '../tensors.ts'
import type { PackedTensor } from '../weights.ts'

export type TensorData = { shape: readonly number[]; data: Float32Array | Int32Array }

/** A name in `shape` is a dimension that may differ from run to run; equal names are equal sizes within one run. */
export type InputSpec = { name: string; dtype: 'float32' | 'int32'; shape: readonly (number | string)[] }

/**
 * `build` is written in TensorFlow.js alone and may use its gradients. It may not read tensors back, and no
 * number in it may depend on a named dimension except as a shape: a traced program is built once.
 * `constants` are frozen: uploaded once and shared by all programs of a backend that hold the same array. `packed`
 * gives some of them a second time, in blocks of 4 bits: a runtime may multiply by either.
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
   * Outputs by name, all or those of `only`; the arrays belong to the caller. Inputs are not changed and may be
   * reused once it resolves.
   */
  run(feeds: Feeds, only?: readonly string[]): Promise<Record<string, { shape: number[]; data: Float32Array }>>
  dispose(): Promise<void>
}

export interface Backend {
  readonly name: 'onnx' | 'wasm' | 'tfjs-node'
  /** Versions of what does the arithmetic, and whatever else decides its bits. */
  readonly build: string
  readonly threads: number
  compile(program: Program): Promise<Compiled>
  dispose(): Promise<void>
}
