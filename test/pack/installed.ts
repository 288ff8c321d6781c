/** The package, built and installed into an empty folder with the Node and npm of the machine, and its commands. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after } from 'node:test'
import { ROOT } from '../../tools/tree.ts'

export type Said = { code: number | NodeJS.Signals | null; out: string; err: string }

/**
 * The environment of a user's shell, without what npm and bootstrap set, so that `node` is the machine's own. Settings
 * of the user's npm (a registry, a cache) stay.
 */
export const environment = (): Record<string, string> => {
  const inherited = Object.entries(process.env).filter(
    ([name, value]) =>
      value !== undefined &&
      !/^(npm_(?!config_)|npm_config_(local_prefix|ignore_scripts)$|INIT_CWD$|NODE|INSTAR_)/i.test(name),
  ) as [string, string][]
  const own = Object.fromEntries(inherited)
  const folders = (own['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  return { ...own, PATH: folders.join(delimiter) }
}

const made: string[] = []
const left = new Set<ChildProcess>()
after(() => {
  for (const { pid } of left) if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  for (const folder of made) rmSync(folder, { recursive: true, force: true })
})

export const temporary = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-packed-'))
  made.push(folder)
  return folder
}

type Started = { child: ChildProcess; out: () => string; err: () => string; ended: Promise<Said> }

/** In its own process group, as a shell would start it. */
export const start = (command: readonly string[], cwd: string, env: Record<string, string> = {}): Started => {
  const child = spawn(command[0]!, command.slice(1), {
    cwd,
    env: { ...environment(), ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  left.add(child)
  let out = ''
  let err = ''
  child.stdout.on('data', (text: Buffer) => {
    out += text.toString()
    child.emit('said')
  })
  child.stderr.on('data', (text: Buffer) => (err += text.toString()))
  const ended = once(child, 'close').then(([code, signal]: unknown[]) => {
    left.delete(child)
    return { code: (signal ?? code) as Said['code'], out, err }
  })
  return { child, out: () => out, err: () => err, ended }
}

export const run = (command: readonly string[], cwd: string, env: Record<string, string> = {}): Promise<Said> =>
  start(command, cwd, env).ended

/** The last line that is JSON. */
export const json = (text: string): unknown =>
  JSON.parse(
    text
      .trimEnd()
      .split('\n')
      .findLast((line) => /^[[{]/.test(line)) ?? 'null',
  )

export type Tarball = { file: string; packed_bytes: number; unpacked_bytes: number; files: number }

/** By the repository's own command. */
export const pack = (out: string): Tarball => {
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'pack', '--', '--out', out], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`npm run pack ended with ${status}\n${stdout}${stderr}`)
  return json(stdout) as Tarball
}

/** An empty folder with the package installed by the command of the README. */
export const install = async (tarball: Tarball): Promise<string> => {
  const folder = temporary()
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const words = ['npm', 'install', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', tarball.file]
  const { code, out, err } = await run(words, folder)
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}\n${out}${err}`)
  return folder
}

/** Bytes of all files in a folder. */
export const bytesOf = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).size, 0)
