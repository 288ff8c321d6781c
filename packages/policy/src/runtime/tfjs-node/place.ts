/**
 * Where the engine is built, and what lies there. The folder is the checkout's own `.cache`: `npm ci` leaves it
 * alone, it goes when the checkout goes, an image copies it, and from inside it Node finds the checkout's
 * `@tensorflow/tfjs-core`, so that the engine's kernels and our model are registered with one and the same library.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ENGINES_FOLDER = fileURLToPath(new URL('../../../../../.cache/tfjs-node', import.meta.url))

/** `gpu` is linked with CUDA's libraries; where no driver answers it computes on the CPU. */
export type Kind = 'cpu' | 'gpu'

/** Paths inside the folder of a kind. */
export const LAYOUT = {
  /** Written last: what is without it is not finished. */
  manifest: 'built.json',
  /** JavaScript and C++ of @tensorflow/tfjs-node-gpu. */
  package: 'package',
  binding: 'addon/tfjs_binding.node',
  environment: 'addon/environment.node',
  /** Of the wheels: `tensorflow/`, `nvidia/`. */
  site: 'site',
} as const

/** `recipe`: digest of all that the build was made by. */
export type Manifest = { kind: Kind; recipe: string; tensorflow: string; package: string }
export type Built = Manifest & { folder: string }

/** Null where nothing, or nothing whole, is there. */
export function builtOf(kind: Kind, folder = ENGINES_FOLDER): Built | null {
  const home = join(folder, kind)
  const file = join(home, LAYOUT.manifest)
  if (!existsSync(file) || ![LAYOUT.binding, LAYOUT.environment].every((path) => existsSync(join(home, path))))
    return null
  return { ...(JSON.parse(readFileSync(file, 'utf8')) as Manifest), folder: home }
}

/** The one that is used: that for GPUs if it was built, since it serves both. */
export const findBuilt = (folder = ENGINES_FOLDER): Built | null => builtOf('gpu', folder) ?? builtOf('cpu', folder)
