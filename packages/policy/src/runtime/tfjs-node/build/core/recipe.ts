/** Compiler arguments of the addons, and the recipe that identifies a build. */
import { CUDA_LIBRARIES, partsOf, UNPACKED, type Kind } from './parts.ts'
import { ADDED, PATCHES } from './patches.ts'

/** Paths of one build; `addon` and `site` are in the same folder. */
export type Paths = { headers: string; package: string; site: string; addon: string; environmentSource: string }

/** Library search paths are relative to the addon, so that the folder can be moved and copied. */
const ORIGIN = '$ORIGIN/../site'

/** Output file and compiler arguments of each addon. */
export function compilations(
  kind: Kind,
  { headers, package: source, site, addon, environmentSource }: Paths,
): { name: string; output: string; args: string[] }[] {
  const common = ['-std=c++17', '-O2', '-fPIC', '-shared', '-DNAPI_VERSION=8', `-I${headers}`]
  const tensorflow = `${site}/tensorflow`
  const cuda = kind === 'gpu' ? CUDA_LIBRARIES : []
  const folders = [...new Set(cuda.map(([folder]) => folder))]
  return [
    { name: 'environment', output: `${addon}/environment.node`, args: [...common, environmentSource] },
    {
      name: 'tfjs_binding',
      output: `${addon}/tfjs_binding.node`,
      args: [
        ...common,
        `-I${tensorflow}/include`,
        `${source}/binding/tfjs_backend.cc`,
        `${source}/binding/tfjs_binding.cc`,
        `${tensorflow}/libtensorflow_cc.so.2`,
        `${tensorflow}/libtensorflow_framework.so.2`,
        ...(cuda.length > 0
          ? ['-Wl,--no-as-needed', ...cuda.map(([folder, library]) => `${site}/nvidia/${folder}/lib/${library}`)]
          : []),
        `-Wl,-rpath,${[`${ORIGIN}/tensorflow`, ...folders.map((folder) => `${ORIGIN}/nvidia/${folder}/lib`)].join(':')}`,
        ...(cuda.length > 0 ? folders.map((folder) => `-Wl,-rpath-link,${site}/nvidia/${folder}/lib`) : []),
      ],
    },
  ]
}

/** All inputs of a build as text; its digest is the recipe. `environment`: the source of the addon `environment`. */
export function recipeText(kind: Kind, environment: string): string {
  const places: Paths = {
    headers: 'headers',
    package: 'package',
    site: 'site',
    addon: 'addon',
    environmentSource: 'environment.cc',
  }
  const patches = PATCHES.map(({ file, pattern, replacement }) => [file, pattern.source, replacement])
  return JSON.stringify([partsOf(kind), UNPACKED, patches, ADDED, compilations(kind, places), environment])
}
