/**
 * The backend `tfjs-node`: TensorFlow.js on the TensorFlow library, through the native addon of
 * @tensorflow/tfjs-node-gpu that `npm run engine:tfjs-node` builds. It is meant for learning: each operation has an
 * overhead of tens of microseconds, so training steps with large batches are fast and token-by-token decoding is slow.
 */
import { InstarError } from '@instar/events/errors'
import * as tf from '../../tensors.ts'
import type { Backend } from '../backend.ts'
import { EagerBackend } from '../eager.ts'
import { LIBRARY, loadNative } from './native.ts'
import { ENGINES_FOLDER, findBuilt } from './build-folder.ts'

const BUILD_COMMAND = 'npm run engine:tfjs-node'

/** Throws `engine_not_built` if the engine is not built or does not load. `folder`: the folder of the builds. */
export async function createTfjsNodeBackend(options: { threads: number; folder?: string }): Promise<Backend> {
  const built = findBuilt(options.folder)
  if (!built)
    throw new InstarError(
      'engine_not_built',
      `The engine tfjs-node is not built (no build in ${options.folder ?? ENGINES_FOLDER}). Build it with \`${BUILD_COMMAND}\`, for a GPU with \`${BUILD_COMMAND} -- --gpu\`.`,
      { engine: 'tfjs-node' },
    )
  try {
    const native = loadNative(built.folder, built.kind, options.threads)
    await tf.setBackend(LIBRARY)
    const device = native.gpu === null ? 'device CPU' : `device GPU ${native.gpu}, TF32 ${native.tf32 ? 'on' : 'off'}`
    return new EagerBackend({
      name: 'tfjs-node',
      library: LIBRARY,
      threads: native.threads,
      build: `tfjs-node ${built.package}, TensorFlow ${native.tensorflow}, oneDNN ${native.oneDnn ? 'on' : 'off'}, ${device}`,
    })
  } catch (error) {
    throw new InstarError(
      'engine_not_built',
      `The engine tfjs-node in ${built.folder} does not load: ${error instanceof Error ? error.message : String(error)}. Build it again with \`${BUILD_COMMAND}${built.kind === 'gpu' ? ' -- --gpu' : ''}\`.`,
      { engine: 'tfjs-node' },
      { cause: error },
    )
  }
}
