/**
 * Builds a module: replaces its types with spaces, by the function that Node itself uses, so that lines and columns
 * stay the same; and changes the modules that it names to those of the package.
 */
import { realpathSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const builtPath = (path: string): string => path.replace(/\.ts$/, '.js')

/**
 * Resolves a module of a workspace by its `exports` to a path relative to the repository. Null: it cannot be resolved.
 */
function resolveModule(root: string, specifier: string): string | null {
  try {
    return relative(root, realpathSync(fileURLToPath(import.meta.resolve(specifier))))
      .split(sep)
      .join('/')
  } catch {
    return null
  }
}

/**
 * Replaces every quoted name of a module in `modules`: in an import, `new Worker(new URL(…))`,
 * `import.meta.resolve(…)`. A relative path gets the extension of the built file. A name in a workspace becomes a
 * relative path, since the package has no workspaces.
 */
export function buildModule(root: string, path: string, text: string, modules: ReadonlySet<string>): string {
  const folder = posix.dirname(path)
  return stripTypeScriptTypes(text, { mode: 'strip' }).replace(
    /(['"])((?:\.{1,2}|@instar)\/[^'"\n]*)\1/g,
    (quoted, quote: string, name: string) => {
      const target = name.startsWith('.') ? posix.join(folder, name) : resolveModule(root, name)
      if (target === null || !modules.has(target)) return quoted
      const built = posix.relative(folder, builtPath(target))
      return `${quote}${built.startsWith('.') ? built : `./${built}`}${quote}`
    },
  )
}
