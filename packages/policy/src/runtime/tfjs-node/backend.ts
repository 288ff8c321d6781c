/**
 * TensorFlow.js on TensorFlow itself, by the native addon of @tensorflow/tfjs-node-gpu that `npm run engine:tfjs-node`
 * builds. Meant for learning: an operation costs tens of microseconds before it computes, so that steps with large
 * batches are fast and decoding a token at a time is not.
 */
import { InstarError } from '@instar/events/errors'
import * as tf from '../../tensors.ts'
import type { Backend } from '../backend.ts'
import { EagerBackend } from '../eager.ts'
import { LIBRARY, loadNative } from './native.ts'
import { ENGINES_FOLDER, findBuilt } from './place.ts'

const BUILD_COMMAND = 'npm run engine:tfjs-node'

/** `engine_not_built` where it is not there, or does not load. */
export async function createTfjsNodeBackend(options: { threads: number; folder?: string }): Promise<Backend> {
  const built = findBuilt(options.folder)
  if (!built)
    throw new InstarError(
      'engine_not_built',
      `The engine tfjs-node is not built here (nothing in ${options.folder ?? ENGINES_FOLDER}). Build it with \`${BUILD_COMMAND}\`, for a GPU with \`${BUILD_COMMAND} -- --gpu\`.`,
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
