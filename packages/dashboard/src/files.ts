/**
 * The files of the dashboard by their name below `/dashboard/`. Its sources are TypeScript modules: types are removed
 * here, and imports of packages become paths, so that no build step and no import map is needed.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname, extname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export type DashboardFile = { bytes: Buffer; type: string; etag: string }

const WEB = fileURLToPath(new URL('../web', import.meta.url))
const { resolve } = createRequire(import.meta.url)

/** Packages that the pages import → the file that is served as `vendor/…`. */
const packageFile = (name: string, ...path: string[]): string => join(dirname(resolve(`${name}/package.json`)), ...path)
const VENDOR: Readonly<Record<string, { name: string; file: () => string }>> = {
  preact: { name: 'vendor/preact.js', file: () => packageFile('preact', 'dist', 'preact.mjs') },
  'preact/hooks': { name: 'vendor/hooks.js', file: () => packageFile('preact', 'hooks', 'dist', 'hooks.mjs') },
  htm: { name: 'vendor/htm.js', file: () => packageFile('preact', '..', 'htm', 'dist', 'htm.module.js') },
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const served = (text: string, name: string): DashboardFile => {
  const bytes = Buffer.from(text)
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  return { bytes, etag, type: TYPES[extname(name)] ?? 'application/octet-stream' }
}

/** `from "preact"` → `from "/dashboard/vendor/preact.js"`. */
const withPaths = (code: string): string =>
  code.replace(/\b(from\s*|import\s*)(["'])([^"'./][^"']*)\2/g, (whole, word: string, quote: string, name: string) => {
    const vendor = VENDOR[name]
    return vendor ? `${word}${quote}/dashboard/${vendor.name}${quote}` : whole
  })

/** Without the warning that Node prints at the first use: the function is what runs this program's own sources. */
const withoutTypes = (code: string): string => {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(code)
  } finally {
    process.emitWarning = emitWarning
  }
}

const withoutMap = (code: string): string => code.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')

/** Reads all files once; some 150 KB. */
export const dashboardFiles = (): ReadonlyMap<string, DashboardFile> => {
  const files = new Map<string, DashboardFile>()
  for (const entry of readdirSync(WEB, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name.includes('.test.')) continue
    const path = join(entry.parentPath, entry.name)
    const name = relative(WEB, path).split(sep).join('/')
    const text = readFileSync(path, 'utf8')
    files.set(name, served(name.endsWith('.ts') ? withPaths(withoutTypes(text)) : text, name))
  }
  for (const { name, file } of Object.values(VENDOR))
    files.set(name, served(withPaths(withoutMap(readFileSync(file(), 'utf8'))), name))
  return files
}
