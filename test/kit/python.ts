/** Python environments in .cache with programs of other projects, one for each list of exact versions. */
import { createHash } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const CACHE = resolve(import.meta.dirname, '../../.cache')
const INSTALL_MS = 30 * 60_000

/** `hashed`: a file with the version and digest of every package. */
type Hashed = { name: string; hashed: string; from: number; to: number }

/**
 * `packages`: with versions. `locked`: a file with the exact versions of possible dependencies. `instead`: versions
 * that replace a package's own requirement. `from`, `to`: supported minor versions of Python 3.
 */
type Wanted = {
  name: string
  packages: readonly string[]
  locked: string
  instead?: readonly string[]
  from: number
  to: number
}

/** The folder of its programs, installed if needed. Throws without Python or network. */
export const pythonPrograms = (wanted: Wanted | Hashed): string => {
  const { name, from, to } = wanted
  const folder = join(CACHE, name)
  const programs = join(folder, 'venv', 'bin')
  const mark = join(folder, 'installed')
  const list = 'hashed' in wanted ? wanted.hashed : wanted.locked
  const asked = 'hashed' in wanted ? ['hashed'] : [wanted.packages, wanted.instead ?? []]
  const hash = createHash('sha256').update(JSON.stringify(asked)).update(readFileSync(list)).digest('hex')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === hash) return programs
  const begin = performance.now()
  mkdirSync(folder, { recursive: true })
  const python = pythonOf(from, to)
  if (python === null) throw new Error(`Python 3.${from} to 3.${to} with venv is needed`)
  run(python, ['-m', 'venv', '--clear', join(folder, 'venv')])
  run(join(programs, 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', 'uv'])
  const uv = (...args: readonly string[]): void =>
    run(join(programs, 'uv'), [
      'pip',
      'install',
      '--quiet',
      '--no-cache',
      '--python',
      join(programs, 'python'),
      ...args,
    ])
  if ('hashed' in wanted) uv('--require-hashes', '--no-deps', '-r', list)
  else {
    const overrides = join(folder, 'overrides.txt')
    writeFileSync(overrides, (wanted.instead ?? []).map((one) => `${one}\n`).join(''))
    uv('--constraint', list, '--override', overrides, ...wanted.packages)
  }
  writeFileSync(mark, hash)
  process.stdout.write(
    `installed ${'hashed' in wanted ? name : wanted.packages.join(', ')} in ${Math.round((performance.now() - begin) / 1000)} s\n`,
  )
  return programs
}

/** The name of a Python 3 within these minor versions that has venv and pip; null without one. */
export const pythonOf = (from: number, to: number): string | null => {
  const minors = Array.from({ length: to - from + 1 }, (_, i) => from + i)
  return (
    ['python3', ...minors.map((minor) => `python3.${minor}`)].find((name) => {
      const { status, stdout } = spawnSync(name, ['-c', 'import ensurepip, sys, venv; print(sys.version_info.minor)'], {
        encoding: 'utf8',
      })
      return status === 0 && minors.includes(Number(stdout))
    }) ?? null
  )
}

const run = (program: string, args: readonly string[]): void => {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit', timeout: INSTALL_MS })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}`)
}
