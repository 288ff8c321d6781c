/** The native addon in this thread: the TensorFlow.js backend `tensorflow`, and what it computes with. */
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import * as tf from '../../tensors.ts'
import { LAYOUT, type Kind } from './place.ts'

/**
 * `gpu`: the name of the GPU that computes; null: the CPU. `held`: live tensors of this thread, and the library's
 * handles of them.
 */
export type Native = {
  tensorflow: string
  gpu: string | null
  oneDnn: boolean
  tf32: boolean
  threads: number
  held(): { tensors: number; handles: number }
}

type Environment = { claim(name: string, value: string): string }
type Binding = { TF_Version: string; isUsingGpuDevice(): boolean; getNumOfTensors(): number }
type Kernels = { NodeJSKernelBackend: new (binding: Binding, packageName: string) => tf.KernelBackend }

/** Name of the backend in TensorFlow.js. */
export const LIBRARY = 'tensorflow'

/**
 * What the libraries are told when they load, unless the process's environment says otherwise. They load once in
 * a process: the first thread decides. `NVIDIA_TF32_OVERRIDE=0`: products in float32 as everywhere else, not in
 * ten bits. `TF_DETERMINISTIC_OPS`: sums in one order.
 */
const settings = (kind: Kind, threads: number): Readonly<Record<string, string>> => ({
  TF_CPP_MIN_LOG_LEVEL: '2',
  TF_ENABLE_ONEDNN_OPTS: '1',
  TF_NUM_INTRAOP_THREADS: String(threads),
  TF_NUM_INTEROP_THREADS: '1',
  ...(kind === 'gpu'
    ? {
        TF_FORCE_GPU_ALLOW_GROWTH: 'true',
        NVIDIA_TF32_OVERRIDE: '0',
        TF_DETERMINISTIC_OPS: '1',
        CUDA_CACHE_MAXSIZE: '4294967296',
      }
    : {}),
})

/** As the driver names its first card; `unnamed` where it does not say. */
function card(): string {
  const folder = '/proc/driver/nvidia/gpus'
  try {
    for (const id of readdirSync(folder)) {
      const model = /^Model:\s*(.+)$/m.exec(readFileSync(join(folder, id, 'information'), 'utf8'))?.[1]
      if (model) return model
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
  }
  return 'unnamed'
}

let loaded: { home: string; native: Native } | null = null

/** `home`: the folder of a kind. Throws the error of the system's loader or of the package. */
export function loadNative(home: string, kind: Kind, threads: number): Native {
  if (loaded?.home === home) return loaded.native
  if (loaded) throw new Error(`this thread has loaded ${loaded.home} already`)
  const require = createRequire(join(home, LAYOUT.package, 'package.json'))
  const mine = createRequire(import.meta.url).resolve('@tensorflow/tfjs-core')
  const theirs = createRequire(require.resolve('@tensorflow/tfjs')).resolve('@tensorflow/tfjs-core')
  if (mine !== theirs) throw new Error(`the addon would use ${theirs}, the model uses ${mine}`)
  const { claim } = require(join(home, LAYOUT.environment)) as Environment
  const inForce = new Map(Object.entries(settings(kind, threads)).map(([name, value]) => [name, claim(name, value)]))
  const binding = require(join(home, LAYOUT.binding)) as Binding
  const { NodeJSKernelBackend } = require('./dist/nodejs_kernel_backend.js') as Kernels
  require('./dist/register_all_kernels.js')
  tf.registerBackend(LIBRARY, () => new NodeJSKernelBackend(binding, '@tensorflow/tfjs-node-gpu'))
  const native: Native = {
    tensorflow: binding.TF_Version,
    gpu: binding.isUsingGpuDevice() ? card() : null,
    oneDnn: inForce.get('TF_ENABLE_ONEDNN_OPTS') !== '0',
    tf32: inForce.get('NVIDIA_TF32_OVERRIDE') !== '0',
    threads: Number(inForce.get('TF_NUM_INTRAOP_THREADS')),
    held: () => ({ tensors: tf.memory().numTensors, handles: binding.getNumOfTensors() }),
  }
  loaded = { home, native }
  return native
}
