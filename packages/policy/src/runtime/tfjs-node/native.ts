/** Loads the native addon into this thread and registers it as the TensorFlow.js backend `tensorflow`. */
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import * as tf from '../../tensors.ts'
import { LAYOUT, type Kind } from './build-folder.ts'

/**
 * `gpu`: the name of the GPU in use; null: the CPU. `threads`: intra-op threads. `usage`: live tensors of this thread,
 * and tensor handles of the library.
 */
type Native = {
  tensorflow: string
  gpu: string | null
  oneDnn: boolean
  tf32: boolean
  threads: number
  usage(): { tensors: number; handles: number }
}

type Environment = { claim(name: string, value: string): string }
type Binding = { TF_Version: string; isUsingGpuDevice(): boolean; getNumOfTensors(): number }
type Kernels = { NodeJSKernelBackend: new (binding: Binding, packageName: string) => tf.KernelBackend }

/** Name of the backend in TensorFlow.js. */
export const LIBRARY = 'tensorflow'

/**
 * Environment variables that are set before the libraries load, unless the process's environment has them already. The
 * libraries load once per process, so the settings of the first thread apply. `NVIDIA_TF32_OVERRIDE=0`: matrix products
 * in float32 instead of TF32 (10-bit mantissa). `TF_DETERMINISTIC_OPS=1`: sums in a fixed order.
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

/** The model name of the driver's first GPU; `unnamed` if the driver does not report one. */
function gpuName(): string {
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

/**
 * `home`: the folder of the build. A thread can load one build; a second call returns the first result. Throws the
 * error of the system's loader or of the package.
 */
export function loadNative(home: string, kind: Kind, threads: number): Native {
  if (loaded?.home === home) return loaded.native
  if (loaded) throw new Error(`this thread has already loaded ${loaded.home} and cannot load ${home}`)
  const require = createRequire(join(home, LAYOUT.package, 'package.json'))
  const modelCore = createRequire(import.meta.url).resolve('@tensorflow/tfjs-core')
  const addonCore = createRequire(require.resolve('@tensorflow/tfjs')).resolve('@tensorflow/tfjs-core')
  if (modelCore !== addonCore)
    throw new Error(`the addon resolves @tensorflow/tfjs-core to ${addonCore}, the model to ${modelCore}`)
  const { claim } = require(join(home, LAYOUT.environment)) as Environment
  const inForce = new Map(Object.entries(settings(kind, threads)).map(([name, value]) => [name, claim(name, value)]))
  const binding = require(join(home, LAYOUT.binding)) as Binding
  const { NodeJSKernelBackend } = require('./dist/nodejs_kernel_backend.js') as Kernels
  require('./dist/register_all_kernels.js')
  tf.registerBackend(LIBRARY, () => new NodeJSKernelBackend(binding, '@tensorflow/tfjs-node-gpu'))
  const native: Native = {
    tensorflow: binding.TF_Version,
    gpu: binding.isUsingGpuDevice() ? gpuName() : null,
    oneDnn: inForce.get('TF_ENABLE_ONEDNN_OPTS') !== '0',
    tf32: inForce.get('NVIDIA_TF32_OVERRIDE') !== '0',
    threads: Number(inForce.get('TF_NUM_INTRAOP_THREADS')),
    usage: () => ({ tensors: tf.memory().numTensors, handles: binding.getNumOfTensors() }),
  }
  loaded = { home, native }
  return native
}
