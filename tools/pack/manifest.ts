/** The package's own package.json, made from the repository's and its lock. */
import type { Manifest } from './contents.ts'

export type Lock = {
  packages: Record<
    string,
    { version?: string; link?: boolean; dev?: boolean; devOptional?: boolean; optional?: boolean; peer?: boolean }
  >
}

const FOLDER = 'node_modules/'

/**
 * The packages that the repository runs with, each at the version of the lock: npm reads no lock out of a tarball, so every one that
 * lies at the top of node_modules is asked for by name.
 */
export function locked(lock: Lock): Required<Pick<Manifest, 'dependencies' | 'optionalDependencies'>> {
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

/** `root`: the repository's package.json, which alone has the version. Private, so that `npm publish` refuses it. */
export const packedManifest = (root: Manifest, lock: Lock): Manifest & { private: true; type: 'module' } => ({
  name: root.name,
  version: root.version,
  private: true,
  description: root.description,
  license: root.license,
  type: 'module',
  engines: root.engines,
  bin: root.bin,
  ...locked(lock),
})
