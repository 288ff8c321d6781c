/**
 * Lists the files of the package: the sources of every workspace that the CLI depends on, the modules outside them that
 * they import, and the files and folders that they open with `new URL('…', import.meta.url)`. A file that is added or
 * moved needs no entry here.
 */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, posix } from 'node:path'

export type Manifest = {
  name: string
  version: string
  description?: string
  license?: string
  engines?: Record<string, string>
  bin?: Record<string, string>
  workspaces?: string[]
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}
/** Paths relative to the repository. */
export type Contents = {
  /** TypeScript modules. The package holds each as JavaScript and as its source. */
  modules: string[]
  /** Other files, copied unchanged. */
  assets: string[]
}

/** Files that npm shows or that the licence requires. */
const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'NOTICE']

const isTest = (path: string): boolean => /\.test\.ts$|(^|\/)(test|fixtures)\//.test(path)

/** Schemas after each migration, which drizzle-kit compares when a migration is written. Applying one reads none. */
const isMigrationSnapshot = (path: string): boolean => /(^|\/)meta\/\d+_snapshot\.json$/.test(path)

export const readManifest = (root: string, path = 'package.json'): Manifest =>
  JSON.parse(readFileSync(`${root}/${path}`, 'utf8')) as Manifest

/**
 * The relative paths in `text` that `pattern` captures, as paths relative to the repository. `from`: path of the
 * module.
 */
const referencedPaths = (text: string, from: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map((match) => posix.join(posix.dirname(from), match[1]!))

const MODULES = /['"](\.{1,2}\/[^'"\n]*\.ts)['"]/g
const URLS = /new URL\(\s*['"](\.{1,2}\/[^'"\n]*)['"],\s*import\.meta\.url/g
const REQUIRED = /require\(['"](\.{1,2}\/[^'"\n]*)['"]\)/g

/** The CLI's workspace and its direct and indirect dependencies. */
function packedWorkspaces(root: string): { folder: string; manifest: Manifest }[] {
  const all = globSync(
    (readManifest(root).workspaces ?? []).map((glob) => `${glob}/package.json`),
    { cwd: root },
  ).map((path) => ({ folder: dirname(path), manifest: readManifest(root, path) }))
  const packed = all.filter(({ folder }) => folder === 'cli')
  for (const { manifest } of packed)
    for (const other of all)
      if (manifest.dependencies?.[other.manifest.name] !== undefined && !packed.includes(other)) packed.push(other)
  return packed.toSorted((a, b) => (a.folder < b.folder ? -1 : 1))
}

/** Pages of a browser, whose types the server removes. */
const isPage = (path: string): boolean => path.includes('/web/')

/**
 * The path of a file, or the paths of the files in a folder except hidden files and TypeScript, which is packed where
 * it is imported, or is a page's.
 */
const openedFiles = (root: string, path: string): string[] =>
  statSync(`${root}/${path}`).isFile()
    ? [path]
    : globSync(`${path.replace(/\/$/, '')}/**/*`, { cwd: root }).filter(
        (file) =>
          statSync(`${root}/${file}`).isFile() &&
          (isPage(file) || !file.endsWith('.ts')) &&
          !/(^|\/)\./.test(file) &&
          !isMigrationSnapshot(file) &&
          !isTest(file),
      )

export function contents(root: string): Contents {
  const workspaces = packedWorkspaces(root)
  const modules = new Set(
    globSync(
      workspaces.map(({ folder }) => `${folder}/src/**/*.ts`),
      { cwd: root },
    )
      .filter((path) => !isTest(path))
      .toSorted(),
  )
  const assets = new Set(DOCUMENTS.filter((path) => existsSync(`${root}/${path}`)))
  for (const path of modules) {
    const text = readFileSync(`${root}/${path}`, 'utf8')
    for (const other of referencedPaths(text, path, MODULES)) if (existsSync(`${root}/${other}`)) modules.add(other)
    for (const other of referencedPaths(text, path, URLS))
      if (!/\.ts$|(^|\/)\./.test(other) && existsSync(`${root}/${other}`))
        for (const file of openedFiles(root, other)) assets.add(file)
  }
  const scripts = Object.values(readManifest(root).bin ?? {})
  for (const path of scripts)
    scripts.push(
      ...referencedPaths(readFileSync(`${root}/${path}`, 'utf8'), path, REQUIRED).filter(
        (one) => !scripts.includes(one),
      ),
    )
  for (const path of scripts) assets.add(path)
  assets.delete('package.json')
  return { modules: [...modules], assets: [...assets] }
}
