/** The programs of this machine that the build needs. */
import { spawn } from 'node:child_process'
import { InstarError } from '@instar/events/errors'

export type Program = { file: string; args: readonly string[] }
export type Finished = { code: number | null; output: string }

export const missing = (message: string, details: Record<string, unknown> = {}, cause?: unknown): InstarError =>
  new InstarError('engine_build_failed', message, details, { cause })

/**
 * `show`: what it says goes to standard error as it comes. `code` is null where the program does not exist or was
 * killed.
 */
export function runProgram(
  program: Program,
  args: readonly string[],
  options: { show?: boolean; cwd?: string; input?: string } = {},
): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(program.file, [...program.args, ...args], {
      cwd: options.cwd,
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    const said: Buffer[] = []
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (bytes: Buffer) => {
        said.push(bytes)
        if (options.show === true) process.stderr.write(bytes)
      })
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'EACCES') resolve({ code: null, output: error.message })
      else reject(error)
    })
    child.once('close', (code) => {
      resolve({ code, output: Buffer.concat(said).toString('utf8') })
    })
    if (options.input !== undefined) child.stdin?.end(options.input)
  })
}

const answers = async (program: Program, args: readonly string[]): Promise<boolean> =>
  (await runProgram(program, args)).code === 0

/** `named`: the value of CXX. */
export async function findCompiler(named: string | undefined): Promise<Program> {
  const words =
    named
      ?.trim()
      .split(/\s+/)
      .filter((word) => word !== '') ?? []
  const [file, ...args] = words
  const candidates: Program[] =
    file === undefined ? ['g++', 'clang++', 'c++'].map((name) => ({ file: name, args: [] })) : [{ file, args }]
  for (const program of candidates) if (await answers(program, ['--version'])) return program
  throw missing(
    `There is no C++ compiler (${candidates.map((program) => program.file).join(', ')}). Install g++ (Debian, Ubuntu: \`apt-get install g++\`; Fedora: \`dnf install gcc-c++\`), or name another in CXX.`,
  )
}

/** `withPip`: it must be able to fetch wheels. */
export async function findPython(withPip: boolean): Promise<Program> {
  let found: Program | null = null
  for (const file of ['python3', 'python']) {
    const program = { file, args: [] }
    if (!(await answers(program, ['-c', 'import sys, zipfile, tarfile; sys.exit(sys.version_info < (3, 8))']))) continue
    if (!withPip || (await answers(program, ['-m', 'pip', '--version']))) return program
    found = program
  }
  if (found)
    throw missing(
      `${found.file} has no pip, which fetches the TensorFlow library. Install it (Debian, Ubuntu: \`apt-get install python3-pip\`), or bring the files with --wheels FOLDER.`,
    )
  throw missing(
    'There is no Python 3.8 or newer. Install python3 with pip (Debian, Ubuntu: `apt-get install python3 python3-pip`); it is needed to fetch and unpack, not afterwards.',
  )
}

/** `script`: npm's own file, where npm started us. */
export async function findNpm(script: string | undefined): Promise<Program> {
  const candidates: Program[] = [
    ...(script !== undefined && /npm-cli\.c?js$/.test(script) ? [{ file: process.execPath, args: [script] }] : []),
    { file: 'npm', args: [] },
  ]
  for (const program of candidates) if (await answers(program, ['--version'])) return program
  throw missing(
    'npm was not found; it fetches two small packages. Start this with `npm run engine:tfjs-node`, or bring the files with --wheels FOLDER.',
  )
}
