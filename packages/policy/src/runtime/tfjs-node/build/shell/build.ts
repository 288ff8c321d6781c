/** The steps of the build. A step that an earlier run has completed is skipped. */
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { builtOf, LAYOUT, type Built, type Kind, type Manifest } from '../../build-folder.ts'
import { HEADERS, PACKAGE, partsOf, roomFor, SOURCES, UNPACKED, wheelsOf, type Part } from '../core/parts.ts'
import { ADDED, patched, PATCHES } from '../core/patches.ts'
import { compilations, recipeText } from '../core/recipe.ts'
import { fetchPart, providedParts, type Clients } from './fetch.ts'
import { buildFailed, findCompiler, findNpm, findPython, runProgram, type Program } from './programs.ts'
import { unpack } from './unpack.ts'

/**
 * `machine`: platform and architecture of Node, such as `linux-x64`. `npm`, `compiler`: npm_execpath and CXX of the
 * environment. `print`: writes a line of progress. `terminal`: whether downloads may draw their progress.
 * `freeMegabytes`: free disk space under a path; default: from statfs.
 */
export type BuildPorts = {
  folder: string
  machine: string
  npm?: string | undefined
  compiler?: string | undefined
  print: (line: string) => void
  terminal: boolean
  freeMegabytes?: (path: string) => number
}
type BuildRequest = { kind: Kind; force: boolean; wheels: string | null }
/** `upToDate`: a build from the same recipe was there already. */
type BuildOutcome = Built & { gpu: string | null; upToDate: boolean }

const ENVIRONMENT_SOURCE = fileURLToPath(new URL('../../native/environment.cc', import.meta.url))
const TRY = fileURLToPath(new URL('./try.ts', import.meta.url))
/** A folder in `site` with an empty file for each wheel that has been unpacked completely. */
const UNPACKED_MARKS = '.unpacked'

const recipeOf = (kind: Kind): string =>
  createHash('sha256')
    .update(recipeText(kind, readFileSync(ENVIRONMENT_SOURCE, 'utf8')))
    .digest('hex')
    .slice(0, 16)

function checkMachine(machine: string): void {
  if (machine === 'linux-x64') return
  throw buildFailed(
    `The engine tfjs-node can be built on Linux x64 only; this machine is ${machine}, where TensorFlow's wheels have another layout. Use the engine onnx or wasm.`,
    { machine },
  )
}

/** Free megabytes on the disk of a path, which may not exist yet. */
function freeIn(path: string): number {
  let at = path
  while (!existsSync(at)) at = dirname(at)
  const { bavail, bsize } = statfsSync(at)
  return Math.floor((bavail * bsize) / 1e6)
}

function checkRoom({ freeMegabytes = freeIn }: BuildPorts, folder: string, needed: number): void {
  const free = freeMegabytes(folder)
  if (free < needed)
    throw buildFailed(
      `The build needs ${needed} MB in ${folder}, which has ${free} MB free. Free disk space, or make .cache a link to a folder on a larger disk.`,
      { free, needed },
    )
}

/** Downloads the files of a build into `folder` (`--download`) and returns their paths. */
export async function download(ports: BuildPorts, kind: Kind, folder: string): Promise<string[]> {
  checkRoom(
    ports,
    folder,
    partsOf(kind).reduce((sum, { megabytes }) => sum + megabytes, 100),
  )
  const clients: Clients = { python: await findPython(true), npm: await findNpm(ports.npm) }
  mkdirSync(folder, { recursive: true })
  const files: string[] = []
  for (const part of partsOf(kind)) {
    ports.print(`fetching ${part.file} (${part.megabytes} MB)`)
    files.push(await fetchPart(part, folder, clients, ports.terminal))
  }
  return files
}

/** Builds the engine, unless a build from the same recipe is there. Throws `engine_build_failed`. */
export async function build(ports: BuildPorts, request: BuildRequest): Promise<BuildOutcome> {
  const { kind } = request
  checkMachine(ports.machine)
  const home = join(ports.folder, kind)
  const recipe = recipeOf(kind)
  const built = builtOf(kind, ports.folder)
  if (built?.recipe === recipe && !request.force)
    return { ...built, gpu: (await tryEngine(home, kind)).gpu, upToDate: true }

  const offline = request.wheels !== null
  const compiler = await findCompiler(ports.compiler)
  const clients: Clients = {
    python: await findPython(!offline),
    npm: offline ? { file: 'npm', args: [] } : await findNpm(ports.npm),
  }
  const provided = request.wheels === null ? null : await providedParts(partsOf(kind), request.wheels)
  const site = join(home, LAYOUT.site)
  const marks = join(site, UNPACKED_MARKS)
  const wheels = wheelsOf(kind)
  const unpacked = existsSync(marks) ? readdirSync(marks) : []
  // Files of wheels that this build does not use: all are removed.
  if (existsSync(site) && unpacked.some((name) => !wheels.some(({ file }) => file === name)))
    rmSync(site, { recursive: true })
  const remaining = wheels.filter(({ file }) => !existsSync(join(marks, file)))
  if (remaining.length > 0) checkRoom(ports, home, roomFor(kind, offline))
  rmSync(join(home, LAYOUT.manifest), { force: true })

  const downloads = join(home, 'downloads')
  mkdirSync(marks, { recursive: true })
  mkdirSync(downloads, { recursive: true })
  const fileOf = async (part: Part): Promise<string> =>
    provided?.get(part) ?? fetchPart(part, downloads, clients, ports.terminal)

  ports.print(`1/4 ${PACKAGE.name} ${PACKAGE.version} and the headers of Node-API`)
  const sources = join(home, 'sources')
  rmSync(sources, { recursive: true, force: true })
  await unpack(clients.python, await fileOf(SOURCES), sources, [
    'package/package.json',
    'package/dist/*',
    'package/binding/*',
  ])
  await unpack(clients.python, await fileOf(HEADERS), join(home, 'headers'), ['package/include/*'])
  applyPatches(join(sources, 'package'))
  rmSync(join(home, LAYOUT.package), { recursive: true, force: true })
  renameSync(join(sources, 'package'), join(home, LAYOUT.package))

  for (const [at, part] of remaining.entries()) {
    ports.print(
      `2/4 ${part.name} ${part.version}, ${part.megabytes} MB${remaining.length > 1 ? ` (${at + 1} of ${remaining.length})` : ''}`,
    )
    const file = await fileOf(part)
    const count = await unpack(clients.python, file, site, UNPACKED)
    if (count === 0) throw buildFailed(`${file} contains none of the files that the build needs`, { part: part.name })
    writeFileSync(join(marks, part.file), '')
    if (!offline) rmSync(file)
  }

  ports.print(`3/4 compiling with ${compiler.file}`)
  await compile(compiler, kind, home)

  ports.print('4/4 testing the engine')
  const { tensorflow, gpu } = await tryEngine(home, kind)
  const manifest: Manifest = { kind, recipe, tensorflow, package: PACKAGE.version }
  writeFileSync(join(home, `${LAYOUT.manifest}.new`), JSON.stringify(manifest))
  renameSync(join(home, `${LAYOUT.manifest}.new`), join(home, LAYOUT.manifest))
  for (const name of ['downloads', 'sources', 'headers']) rmSync(join(home, name), { recursive: true, force: true })
  return { ...manifest, folder: home, gpu, upToDate: false }
}

function applyPatches(folder: string): void {
  for (const patch of PATCHES) {
    const file = join(folder, patch.file)
    writeFileSync(file, patched(readFileSync(file, 'utf8'), patch))
  }
  for (const [path, text] of Object.entries(ADDED)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

/** Replaces the addon files by renaming instead of overwriting them, since a process may have loaded them. */
async function compile(compiler: Program, kind: Kind, home: string): Promise<void> {
  const addon = join(home, 'addon')
  mkdirSync(addon, { recursive: true })
  const paths = {
    headers: join(home, 'headers/package/include'),
    package: join(home, LAYOUT.package),
    site: join(home, LAYOUT.site),
    addon,
    environmentSource: ENVIRONMENT_SOURCE,
  }
  for (const { name, output, args } of compilations(kind, paths)) {
    const { code, output: messages } = await runProgram(compiler, [...args, '-o', `${output}.new`])
    if (code !== 0)
      throw buildFailed(
        `${compiler.file} could not compile ${name}:\n${messages.trim().split('\n').slice(0, 20).join('\n')}`,
        { compiler: compiler.file },
      )
    renameSync(`${output}.new`, output)
  }
}

/** Loads the engine in a process of its own, since a failure in native code may end the process. */
async function tryEngine(home: string, kind: Kind): Promise<{ tensorflow: string; gpu: string | null }> {
  const { code, output } = await runProgram({ file: process.execPath, args: [] }, [TRY, home, kind])
  const json = output.split('\n').at(-1) ?? ''
  if (code === 0 && json.startsWith('{')) return JSON.parse(json) as { tensorflow: string; gpu: string | null }
  throw buildFailed(
    `The engine was built and does not load:\n${output
      .trim()
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-12)
      .join('\n')}`,
    { folder: home },
  )
}
