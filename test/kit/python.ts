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

const PROBE = 'import ensurepip, sys, venv; print(sys.version_info.minor)'

/**
 * The program of a Python 3 within these minor versions that has venv and pip; null without one. `INSTAR_PYTHON` stands
 * before all others, and throws where it does not fit. Then `python3` and `python3.N` of the path, what uv knows, and
 * pyenv's versions, lower ones first: they need not be what `python3` means in this folder. Fetches nothing.
 */
export const pythonOf = (from: number, to: number, env: NodeJS.ProcessEnv = process.env): string | null => {
  const minors = Array.from({ length: to - from + 1 }, (_, at) => from + at)
  const said = (program: string, ...args: readonly string[]): string => {
    const { status, stdout } = spawnSync(program, args, { encoding: 'utf8', env })
    return status === 0 ? stdout.trim() : ''
  }
  const fits = (program: string): boolean => {
    const minor = said(program, '-c', PROBE)
    return minor !== '' && minors.includes(Number(minor))
  }
  const named = env['INSTAR_PYTHON'] ?? ''
  if (named !== '') {
    if (fits(named)) return named
    throw new Error(`INSTAR_PYTHON (${named}) is not a Python 3.${from} to 3.${to} with venv`)
  }
  const onPath = ['python3', ...minors.map((minor) => `python3.${minor}`)].find(fits)
  if (onPath !== undefined) return onPath
  const known = said('uv', 'python', 'find', '--no-python-downloads', `>=3.${from},<3.${to + 1}`)
  if (known !== '' && fits(known)) return known
  const root = said('pyenv', 'root')
  const versions = said('pyenv', 'versions', '--bare').split('\n')
  return (
    minors
      .flatMap((minor) => versions.filter((version) => version.startsWith(`3.${minor}.`)))
      .map((version) => join(root, 'versions', version, 'bin', 'python3'))
      .find(fits) ?? null
  )
}

const run = (program: string, args: readonly string[]): void => {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit', timeout: INSTALL_MS })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}`)
}
