/** Finds and runs the programs that the build needs. */
import { spawn } from 'node:child_process'
import { InstarError } from '@instar/events/errors'

export type Program = { file: string; args: readonly string[] }
type Finished = { code: number | null; output: string }

export const buildFailed = (message: string, details: Record<string, unknown> = {}, cause?: unknown): InstarError =>
  new InstarError('engine_build_failed', message, details, { cause })

/**
 * Runs a program to its end and collects its output. `show`: the output also goes to standard error as it arrives.
 * `code` is null if the program does not exist or was ended by a signal.
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
    const chunks: Buffer[] = []
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (bytes: Buffer) => {
        chunks.push(bytes)
        if (options.show === true) process.stderr.write(bytes)
      })
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'EACCES') resolve({ code: null, output: error.message })
      else reject(error)
    })
    child.once('close', (code) => {
      resolve({ code, output: Buffer.concat(chunks).toString('utf8') })
    })
    if (options.input !== undefined) child.stdin?.end(options.input)
  })
}

const runs = async (program: Program, args: readonly string[]): Promise<boolean> =>
  (await runProgram(program, args)).code === 0

/** `cxx`: the value of CXX, a program and its arguments. */
export async function findCompiler(cxx: string | undefined): Promise<Program> {
  const words =
    cxx
      ?.trim()
      .split(/\s+/)
      .filter((word) => word !== '') ?? []
  const [file, ...args] = words
  const candidates: Program[] =
    file === undefined ? ['g++', 'clang++', 'c++'].map((name) => ({ file: name, args: [] })) : [{ file, args }]
  for (const program of candidates) if (await runs(program, ['--version'])) return program
  throw buildFailed(
    `No C++ compiler was found (tried ${candidates.map((program) => program.file).join(', ')}). Install g++ (Debian, Ubuntu: \`apt-get install g++\`; Fedora: \`dnf install gcc-c++\`), or name a compiler in CXX.`,
  )
}

/** A Python of version 3.8 or newer; `withPip`: with pip, to download wheels. */
export async function findPython(withPip: boolean): Promise<Program> {
  let withoutPip: Program | null = null
  for (const file of ['python3', 'python']) {
    const program = { file, args: [] }
    if (!(await runs(program, ['-c', 'import sys, zipfile, tarfile; sys.exit(sys.version_info < (3, 8))']))) continue
    if (!withPip || (await runs(program, ['-m', 'pip', '--version']))) return program
    withoutPip = program
  }
  if (withoutPip)
    throw buildFailed(
      `${withoutPip.file} has no pip, which downloads the TensorFlow library. Install it (Debian, Ubuntu: \`apt-get install python3-pip\`), or provide the files with --wheels FOLDER.`,
    )
  throw buildFailed(
    'No Python 3.8 or newer was found. Install python3 with pip (Debian, Ubuntu: `apt-get install python3 python3-pip`); only the build uses it, to download and unpack files.',
  )
}

/** `script`: the path of npm's script (npm_execpath), if npm started this process. */
export async function findNpm(script: string | undefined): Promise<Program> {
  const candidates: Program[] = [
    ...(script !== undefined && /npm-cli\.c?js$/.test(script) ? [{ file: process.execPath, args: [script] }] : []),
    { file: 'npm', args: [] },
  ]
  for (const program of candidates) if (await runs(program, ['--version'])) return program
  throw buildFailed(
    'npm, which downloads two small packages, was not found. Start the build with `npm run engine:tfjs-node`, or provide the files with --wheels FOLDER.',
  )
}
