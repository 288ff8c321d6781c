/**
 * What the package holds, found by globs and by what the sources name, so that a file that is added or moved needs no
 * entry here: the sources of every workspace that the CLI depends on, the modules outside them that they import, and
 * the files and folders that they open by `new URL('…', import.meta.url)`.
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
export type Contents = {
  /** TypeScript modules, by paths relative to the repository. Each is built, and its source goes along. */
  modules: string[]
  /** Everything else, taken as it is. */
  assets: string[]
}

/** What npm shows and what the licence asks for. */
const PAPERS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'NOTICE']

const isTest = (path: string): boolean => /\.test\.ts$|(^|\/)(test|fixtures)\//.test(path)

export const readManifest = (root: string, path = 'package.json'): Manifest =>
  JSON.parse(readFileSync(`${root}/${path}`, 'utf8')) as Manifest

/** `quoted` relative paths of a module, as paths relative to the repository. */
const named = (text: string, from: string, quoted: RegExp): string[] =>
  [...text.matchAll(quoted)].map((match) => posix.join(posix.dirname(from), match[1]!))

const MODULES = /['"](\.{1,2}\/[^'"\n]*\.ts)['"]/g
const OPENED = /new URL\(\s*['"](\.{1,2}\/[^'"\n]*)['"],\s*import\.meta\.url/g
const REQUIRED = /require\(['"](\.{1,2}\/[^'"\n]*)['"]\)/g

/** The CLI's workspace and those that it depends on, however far. */
function neededWorkspaces(root: string): { folder: string; manifest: Manifest }[] {
  const all = globSync(
    (readManifest(root).workspaces ?? []).map((glob) => `${glob}/package.json`),
    { cwd: root },
  ).map((path) => ({ folder: dirname(path), manifest: readManifest(root, path) }))
  const needed = all.filter(({ folder }) => folder === 'cli')
  for (const { manifest } of needed)
    for (const other of all)
      if (manifest.dependencies?.[other.manifest.name] !== undefined && !needed.includes(other)) needed.push(other)
  return needed.toSorted((a, b) => (a.folder < b.folder ? -1 : 1))
}

/** Every file in a folder but hidden ones; a file is itself. TypeScript is left to those who import it. */
const opened = (root: string, path: string): string[] =>
  statSync(`${root}/${path}`).isFile()
    ? [path]
    : globSync(`${path.replace(/\/$/, '')}/**/*`, { cwd: root }).filter(
        (file) => statSync(`${root}/${file}`).isFile() && !/\.ts$|(^|\/)\./.test(file) && !isTest(file),
      )

export function contents(root: string): Contents {
  const workspaces = neededWorkspaces(root)
  const modules = new Set(
    globSync(
      workspaces.map(({ folder }) => `${folder}/src/**/*.ts`),
      { cwd: root },
    )
      .filter((path) => !isTest(path))
      .toSorted(),
  )
  const assets = new Set(PAPERS.filter((path) => existsSync(`${root}/${path}`)))
  for (const path of modules) {
    const text = readFileSync(`${root}/${path}`, 'utf8')
    for (const other of named(text, path, MODULES)) if (existsSync(`${root}/${other}`)) modules.add(other)
    for (const other of named(text, path, OPENED))
      if (!/\.ts$|(^|\/)\./.test(other) && existsSync(`${root}/${other}`))
        for (const file of opened(root, other)) assets.add(file)
  }
  const scripts = Object.values(readManifest(root).bin ?? {})
  for (const path of scripts)
    scripts.push(
      ...named(readFileSync(`${root}/${path}`, 'utf8'), path, REQUIRED).filter((one) => !scripts.includes(one)),
    )
  for (const path of scripts) assets.add(path)
  assets.delete('package.json')
  return { modules: [...modules], assets: [...assets] }
}
