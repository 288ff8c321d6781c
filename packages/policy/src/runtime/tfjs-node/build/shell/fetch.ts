/** Downloads files of the package registries with the client of each registry, and verifies their digests. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Part } from '../core/parts.ts'
import { buildFailed, runProgram, type Program } from './programs.ts'

export type Clients = { python: Program; npm: Program }

/** pip downloads a wheel for another platform or Python version only with explicit platform tags. */
const PLATFORMS = ['manylinux_2_27', 'manylinux_2_17', 'manylinux2014', 'manylinux_2_12', 'manylinux2010'].flatMap(
  (tag) => ['--platform', `${tag}_x86_64`],
)

/** Whether the file exists and has the digest of the part. */
export async function isIntact(file: string, { digest }: Part): Promise<boolean> {
  if (!existsSync(file)) return false
  const algorithm = digest.slice(0, digest.indexOf('-'))
  const hash = createHash(algorithm)
  await pipeline(createReadStream(file), hash)
  return hash.digest(algorithm === 'sha256' ? 'hex' : 'base64') === digest.slice(algorithm.length + 1)
}

const lastLines = (output: string): string => output.trim().split('\n').slice(-6).join('\n')

/**
 * Downloads the part into `folder`, unless an intact file is there, and returns its path. `show`: the client's output
 * goes to standard error. Throws `engine_build_failed`.
 */
export async function fetchPart(part: Part, folder: string, clients: Clients, show: boolean): Promise<string> {
  const file = join(folder, part.file)
  if (await isIntact(file, part)) return file
  rmSync(file, { force: true })
  const work = join(folder, `.fetching-${part.file}`)
  rmSync(work, { recursive: true, force: true })
  mkdirSync(work, { recursive: true })
  try {
    const { code, output } =
      part.from === 'pypi'
        ? await runProgram(
            clients.python,
            [
              '-m',
              'pip',
              'download',
              '--disable-pip-version-check',
              '--no-deps',
              '--only-binary=:all:',
              '--python-version',
              '3.11',
              '--implementation',
              'cp',
              ...PLATFORMS,
              '--dest',
              work,
              `${part.name}==${part.version}`,
            ],
            { show },
          )
        : await runProgram(
            clients.npm,
            ['pack', '--silent', '--ignore-scripts', '--pack-destination', work, `${part.name}@${part.version}`],
            { cwd: work },
          )
    const client = part.from === 'pypi' ? 'pip' : 'npm'
    if (code !== 0)
      throw buildFailed(
        `${client} could not fetch ${part.name} ${part.version}:\n${lastLines(output)}\nWithout a network, run with --download FOLDER on another machine and build here with --wheels FOLDER.`,
        { part: part.name },
      )
    const [fetched] = readdirSync(work)
    if (fetched === undefined || !(await isIntact(join(work, fetched), part)))
      throw buildFailed(
        `${client} fetched ${fetched ?? 'no file'} for ${part.name} ${part.version}; expected ${part.file} with digest ${part.digest}.`,
        { part: part.name },
      )
    renameSync(join(work, fetched), file)
    return file
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** The paths of all parts in `folder`. Throws `engine_build_failed` with a list of buildFailed and altered files. */
export async function providedParts(parts: readonly Part[], folder: string): Promise<Map<Part, string>> {
  const found = new Map<Part, string>()
  const absent: string[] = []
  for (const part of parts) {
    const file = join(folder, part.file)
    if (await isIntact(file, part)) found.set(part, file)
    else absent.push(`  ${part.file}${existsSync(file) ? ' (its digest differs)' : ''}`)
  }
  if (absent.length > 0)
    throw buildFailed(
      `Files are buildFailed in ${folder}:\n${absent.join('\n')}\nFetch them with --download FOLDER on a machine with a network.`,
      { folder },
    )
  return found
}
