/**
 * The folder of the built engine and its layout. It is in `.cache` of the checkout: `npm ci` does not remove it, it is
 * removed with the checkout, an image includes it, and Node resolves `@tensorflow/tfjs-core` from it to the package of
 * the checkout, so that the engine's kernels and the model are registered with the same library.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ENGINES_FOLDER = fileURLToPath(new URL('../../../../../.cache/tfjs-node', import.meta.url))

/** `gpu` is linked with the CUDA libraries; without a driver it computes on the CPU. */
export type Kind = 'cpu' | 'gpu'

/** Paths inside the folder of a kind. */
export const LAYOUT = {
  /** Written last: a build without it is incomplete. */
  manifest: 'built.json',
  /** JavaScript and C++ of @tensorflow/tfjs-node-gpu. */
  package: 'package',
  binding: 'addon/tfjs_binding.node',
  environment: 'addon/environment.node',
  /** Files of the wheels: `tensorflow/`, `nvidia/`. */
  site: 'site',
} as const

/** `recipe`: digest of the inputs of the build (build/core/recipe.ts). */
export type Manifest = { kind: Kind; recipe: string; tensorflow: string; package: string }
export type Built = Manifest & { folder: string }

/** The build of a kind, or null if there is none or it is incomplete. */
export function builtOf(kind: Kind, folder = ENGINES_FOLDER): Built | null {
  const home = join(folder, kind)
  const file = join(home, LAYOUT.manifest)
  if (!existsSync(file) || ![LAYOUT.binding, LAYOUT.environment].every((path) => existsSync(join(home, path))))
    return null
  return { ...(JSON.parse(readFileSync(file, 'utf8')) as Manifest), folder: home }
}

/** The build that is used: `gpu` if there is one, since it computes on both devices, else `cpu`. */
export const findBuilt = (folder = ENGINES_FOLDER): Built | null => builtOf('gpu', folder) ?? builtOf('cpu', folder)
