/** The build, step by step; each step sees what an earlier run has done. */
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
import { builtOf, LAYOUT, type Built, type Kind, type Manifest } from '../../place.ts'
import { HEADERS, PACKAGE, partsOf, roomFor, SOURCES, UNPACKED, wheelsOf, type Part } from '../core/parts.ts'
import { ADDED, patched, PATCHES } from '../core/patches.ts'
import { compilations, recipeText } from '../core/recipe.ts'
import { fetchPart, givenParts, type Clients } from './fetch.ts'
import { findCompiler, findNpm, findPython, missing, runProgram, type Program } from './programs.ts'
import { unpack } from './unpack.ts'

/**
 * `machine`: as Node names it, `linux-x64`. `npm`, `compiler`: npm_execpath and CXX of the environment. `terminal`:
 * progress of downloads may be drawn. `freeMegabytes`: what can be written under a path; default: what its disk says.
 */
export type BuildPorts = {
  folder: string
  machine: string
  npm?: string | undefined
  compiler?: string | undefined
  say: (line: string) => void
  terminal: boolean
  freeMegabytes?: (path: string) => number
}
export type BuildRequest = { kind: Kind; force: boolean; wheels: string | null }
export type BuildOutcome = Built & { gpu: string | null; again: boolean }

const ENVIRONMENT_SOURCE = fileURLToPath(new URL('../../native/environment.cc', import.meta.url))
const TRY = fileURLToPath(new URL('./try.ts', import.meta.url))
/** In `site`: one empty file for each wheel that is unpacked whole. */
const UNPACKED_MARKS = '.unpacked'

const recipeOf = (kind: Kind): string =>
  createHash('sha256')
    .update(recipeText(kind, readFileSync(ENVIRONMENT_SOURCE, 'utf8')))
    .digest('hex')
    .slice(0, 16)

function checkMachine(machine: string): void {
  if (machine === 'linux-x64') return
  throw missing(
    `The engine tfjs-node can be built on Linux x64 only (this is ${machine}): elsewhere TensorFlow's wheels have another layout, which nobody has tried. The engines onnx and wasm run here.`,
    { machine },
  )
}

/** Megabytes that can be written under a path that may not exist yet. */
function freeIn(path: string): number {
  let at = path
  while (!existsSync(at)) at = dirname(at)
  const { bavail, bsize } = statfsSync(at)
  return Math.floor((bavail * bsize) / 1e6)
}

function checkRoom({ freeMegabytes = freeIn }: BuildPorts, folder: string, needed: number): void {
  const free = freeMegabytes(folder)
  if (free < needed)
    throw missing(
      `${folder} has ${free} MB free, and ${needed} MB are needed. Make room, or give .cache another place (a link to a folder on a larger disk will do).`,
      { free, needed },
    )
}

/** `--download`: the files alone. */
export async function download(world: BuildPorts, kind: Kind, folder: string): Promise<string[]> {
  checkRoom(
    world,
    folder,
    partsOf(kind).reduce((sum, { megabytes }) => sum + megabytes, 100),
  )
  const clients: Clients = { python: await findPython(true), npm: await findNpm(world.npm) }
  mkdirSync(folder, { recursive: true })
  const files: string[] = []
  for (const part of partsOf(kind)) {
    world.say(`fetching ${part.file} (${part.megabytes} MB)`)
    files.push(await fetchPart(part, folder, clients, world.terminal))
  }
  return files
}

/** `again`: it was there already, from this very recipe. */
export async function build(world: BuildPorts, wanted: BuildRequest): Promise<BuildOutcome> {
  const { kind } = wanted
  checkMachine(world.machine)
  const home = join(world.folder, kind)
  const recipe = recipeOf(kind)
  const there = builtOf(kind, world.folder)
  if (there?.recipe === recipe && !wanted.force) return { ...there, gpu: (await tryIt(home, kind)).gpu, again: true }

  const offline = wanted.wheels !== null
  const compiler = await findCompiler(world.compiler)
  const clients: Clients = {
    python: await findPython(!offline),
    npm: offline ? { file: 'npm', args: [] } : await findNpm(world.npm),
  }
  const given = wanted.wheels === null ? null : await givenParts(partsOf(kind), wanted.wheels)
  const site = join(home, LAYOUT.site)
  const marks = join(site, UNPACKED_MARKS)
  const wheels = wheelsOf(kind)
  const done = existsSync(marks) ? readdirSync(marks) : []
  // Other wheels than ours, or an incomplete download: none of the files is used.
  if (existsSync(site) && done.some((name) => !wheels.some(({ file }) => file === name)))
    rmSync(site, { recursive: true })
  const rest = wheels.filter(({ file }) => !existsSync(join(marks, file)))
  if (rest.length > 0) checkRoom(world, home, roomFor(kind, offline))
  rmSync(join(home, LAYOUT.manifest), { force: true })

  const downloads = join(home, 'downloads')
  mkdirSync(marks, { recursive: true })
  mkdirSync(downloads, { recursive: true })
  const fileOf = async (part: Part): Promise<string> =>
    given?.get(part) ?? fetchPart(part, downloads, clients, world.terminal)

  world.say(`1/4 ${PACKAGE.name} ${PACKAGE.version} and the headers of Node-API`)
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

  for (const [at, part] of rest.entries()) {
    world.say(
      `2/4 ${part.name} ${part.version}, ${part.megabytes} MB${rest.length > 1 ? ` (${at + 1} of ${rest.length})` : ''}`,
    )
    const file = await fileOf(part)
    const count = await unpack(clients.python, file, site, UNPACKED)
    if (count === 0) throw missing(`${file} holds nothing of what is needed`, { part: part.name })
    writeFileSync(join(marks, part.file), '')
    if (!offline) rmSync(file)
  }

  world.say(`3/4 compiling with ${compiler.file}`)
  await compile(compiler, kind, home)

  world.say('4/4 trying it')
  const { tensorflow, gpu } = await tryIt(home, kind)
  const manifest: Manifest = { kind, recipe, tensorflow, package: PACKAGE.version }
  writeFileSync(join(home, `${LAYOUT.manifest}.new`), JSON.stringify(manifest))
  renameSync(join(home, `${LAYOUT.manifest}.new`), join(home, LAYOUT.manifest))
  for (const name of ['downloads', 'sources', 'headers']) rmSync(join(home, name), { recursive: true, force: true })
  return { ...manifest, folder: home, gpu, again: false }
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

/** A process may be running the addons that are there: they are replaced, not written over. */
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
    const { code, output: said } = await runProgram(compiler, [...args, '-o', `${output}.new`])
    if (code !== 0)
      throw missing(`${compiler.file} could not compile ${name}:\n${said.trim().split('\n').slice(0, 20).join('\n')}`, {
        compiler: compiler.file,
      })
    renameSync(`${output}.new`, output)
  }
}

/** In a process of its own: what does not load may not take this one with it. */
async function tryIt(home: string, kind: Kind): Promise<{ tensorflow: string; gpu: string | null }> {
  const { code, output } = await runProgram({ file: process.execPath, args: [] }, [TRY, home, kind])
  const json = output.split('\n').at(-1) ?? ''
  if (code === 0 && json.startsWith('{')) return JSON.parse(json) as { tensorflow: string; gpu: string | null }
  throw missing(
    `What was built does not load:\n${output
      .trim()
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-12)
      .join('\n')}`,
    { folder: home },
  )
}
