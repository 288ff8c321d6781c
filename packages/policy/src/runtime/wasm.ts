/** TensorFlow.js on its WebAssembly backend with one thread. It runs on every platform. */
import { createRequire } from 'node:module'
import * as tf from '../tensors.ts'
import { setThreadsCount } from '@tensorflow/tfjs-backend-wasm'
import type { Backend } from './backend.ts'
import { EagerBackend } from './eager.ts'
import { freeze, overrideKernels, unfreeze } from './wasm-kernels.ts'

let ready: Promise<void> | null = null

async function start(): Promise<void> {
  setThreadsCount(1)
  await tf.setBackend('wasm')
  await tf.ready()
  if (tf.getBackend() !== 'wasm') throw new Error('the WebAssembly backend did not start')
  overrideKernels()
}

export async function createWasmBackend(): Promise<Backend> {
  await (ready ??= start())
  const { version } = createRequire(import.meta.url)('@tensorflow/tfjs-backend-wasm/package.json') as {
    version: string
  }
  return new EagerBackend({
    name: 'wasm',
    library: 'wasm',
    threads: 1,
    build: `tfjs-backend-wasm ${version}`,
    onFreeze: freeze,
    onUnfreeze: unfreeze,
  })
}
