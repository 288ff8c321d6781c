/** Builds the package.json of the package from that of the repository and its lockfile. */
import type { Manifest } from './contents.ts'

export type Lock = {
  packages: Record<
    string,
    { version?: string; link?: boolean; dev?: boolean; devOptional?: boolean; optional?: boolean; peer?: boolean }
  >
}

const FOLDER = 'node_modules/'

/**
 * The dependencies at the top of node_modules, each at the version of the lockfile: npm does not read a lockfile from a
 * tarball.
 */
function lockedDependencies(lock: Lock): Required<Pick<Manifest, 'dependencies' | 'optionalDependencies'>> {
  const dependencies: Record<string, string> = {}
  const optionalDependencies: Record<string, string> = {}
  for (const [path, { version, link, dev, devOptional, optional, peer }] of Object.entries(lock.packages)) {
    const name = path.slice(FOLDER.length)
    if (!path.startsWith(FOLDER) || name.includes(FOLDER) || version === undefined) continue
    if (link || dev || devOptional || peer) continue
    ;(optional ? optionalDependencies : dependencies)[name] = version
  }
  return { dependencies, optionalDependencies }
}

/** `root`: package.json of the repository. Private, so that `npm publish` refuses the package. */
export const packedManifest = (root: Manifest, lock: Lock): Manifest & { private: true; type: 'module' } => ({
  name: root.name,
  version: root.version,
  private: true,
  description: root.description,
  license: root.license,
  type: 'module',
  engines: root.engines,
  bin: root.bin,
  ...lockedDependencies(lock),
})
