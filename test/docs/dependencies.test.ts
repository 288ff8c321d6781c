import { deepEqual } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { sourceFiles, ROOT } from '../../tools/tree.ts'

const KINDS = ['dependencies', 'optionalDependencies', 'peerDependencies', 'devDependencies'] as const
type Manifest = Partial<Record<(typeof KINDS)[number], Record<string, string>>>

/** `name version` of every external dependency of a package.json of this repository. */
async function asked(): Promise<string[]> {
  const manifests = await Promise.all(
    sourceFiles()
      .filter((path) => /(^|\/)package\.json$/.test(path))
      .map(async (path) => JSON.parse(await readFile(join(ROOT, path), 'utf8')) as Manifest),
  )
  const all = manifests.flatMap((manifest) => KINDS.flatMap((kind) => Object.entries(manifest[kind] ?? {})))
  return [
    ...new Set(all.filter(([name]) => !name.startsWith('@instar/')).map(([name, version]) => `${name} ${version}`)),
  ].toSorted()
}

/** `name version` of each entry of the page: a row's first cell holds names, its second the version of each. */
function explained(page: string): string[] {
  return page
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => {
      const cells = line.split('|').map((cell) => cell.trim())
      const names = [...cells[1]!.matchAll(/`([^`]+)`/g)].map((match) => match[1]!)
      const versions = cells[2]!.split(/,\s*/)
      return names.map((name, index) => `${name} ${versions[index] ?? versions[0]}`)
    })
    .toSorted()
}

test('docs/dependencies.md explains exactly the dependencies of all package.json files', async () => {
  deepEqual(explained(await readFile(join(ROOT, 'docs/dependencies.md'), 'utf8')), await asked())
})

test('each dependency has one exact version', async () => {
  deepEqual(
    (await asked()).filter((line) => !/ \d+\.\d+\.\d+(-[\w.]+)?$/.test(line)),
    [],
  )
})

test('the lockfile names no registry', async () => {
  const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string }>
  }
  deepEqual(
    Object.values(lock.packages).filter(({ resolved }) => resolved?.startsWith('http')),
    [],
  )
})

test('the lockfile has of TensorFlow.js what is imported, without the bundle of everything', async () => {
  const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: object }
  deepEqual(
    Object.keys(lock.packages)
      .filter((path) => path.includes('node_modules/@tensorflow/'))
      .map((path) => path.split('node_modules/@tensorflow/')[1]!)
      .filter((path) => !path.includes('/'))
      .toSorted(),
    ['tfjs-backend-cpu', 'tfjs-backend-wasm', 'tfjs-core'],
  )
})

test('the lockfile has each optional platform package that a package requires', async () => {
  type Entry = { version?: string; optionalDependencies?: Record<string, string>; optional?: boolean }
  const { packages } = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Entry>
  }
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies }]) =>
    Object.keys(optionalDependencies ?? {})
      .filter(
        (name) =>
          packages[`${path}/node_modules/${name}`] === undefined && packages[`node_modules/${name}`] === undefined,
      )
      .map((name) => `${path}: ${name}`),
  )
  deepEqual(missing, [])
})
