/**
 * A module as JavaScript: its types are blanked by the function with which Node runs the repository, so that lines and columns
 * stay, and the modules that it names are those of the package.
 */
import { realpathSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const built = (path: string): string => path.replace(/\.ts$/, '.js')

/** A workspace's module by its name, as its `exports` have it: a path relative to the repository. Null: it is none. */
function byName(root: string, specifier: string): string | null {
  try {
    return relative(root, realpathSync(fileURLToPath(import.meta.resolve(specifier))))
      .split(sep)
      .join('/')
  } catch {
    return null
  }
}

/**
 * Quoted names of modules, wherever they stand: in an import, `new Worker(new URL(…))`, `import.meta.resolve(…)`. A relative
 * one gets the ending of the built file. A workspace's name becomes a relative path, since the package has no workspaces.
 */
export function build(root: string, path: string, text: string, modules: ReadonlySet<string>): string {
  const folder = posix.dirname(path)
  return stripTypeScriptTypes(text, { mode: 'strip' }).replace(
    /(['"])((?:\.{1,2}|@instar)\/[^'"\n]*)\1/g,
    (quoted, quote: string, name: string) => {
      const target = name.startsWith('.') ? posix.join(folder, name) : byName(root, name)
      if (target === null || !modules.has(target)) return quoted
      const there = posix.relative(folder, built(target))
      return `${quote}${there.startsWith('.') ? there : `./${there}`}${quote}`
    },
  )
}
