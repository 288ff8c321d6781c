/**
 * `npm run test:clients [-- part of a path ...]`: installs the client libraries (sdk/, python/) and the agents
 * (agents/; nightly/ only if it is named, with programs in Python, Go and Java) from their own lockfiles and runs the
 * tests of this folder against a gateway with a scripted model, offline. Needs Linux, macOS or Windows on x64 or arm64
 * for the agents' native programs.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'
import { goClients } from './nightly/go.ts'
import { javaClients } from './nightly/java.ts'
import { pythonAgents } from './nightly/python.ts'
import { pythonClients } from './python/programs.ts'

const HERE = import.meta.dirname
const ROOT = path.resolve(HERE, '../..')
const wanted = process.argv.slice(2)
const files = globSync('{sdk,python,agents,nightly}/*.test.ts', { cwd: HERE })
  .toSorted()
  .filter((file) => (wanted.length === 0 ? !file.startsWith('nightly') : wanted.some((part) => file.includes(part))))
if (files.length === 0) throw new Error(`no test file matches ${wanted.join(', ')}`)

const exitOf = async (command: string, args: readonly string[], cwd: string): Promise<number> => {
  const child = spawn(command, args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
  const [code] = (await once(child, 'close')) as [number | null]
  return code ?? 1
}

/**
 * Folders whose lockfile names platform packages that are not published (any more); `npm ci` refuses such a lockfile.
 */
const FOREIGN_GONE = ['nightly']

/** Once per lockfile: its hash is in node_modules when the installation is complete. */
const install = async (folder: string): Promise<void> => {
  const hash = createHash('sha256')
    .update(await readFile(path.join(folder, 'package-lock.json')))
    .digest('hex')
  const mark = path.join(folder, 'node_modules', '.installed')
  if ((await readFile(mark, 'utf8').catch(() => null)) === hash) return
  const begin = performance.now()
  const [verb, ...more] = FOREIGN_GONE.includes(path.basename(folder)) ? ['install', '--no-save'] : ['ci']
  const code = await exitOf('npm', [verb!, ...more, '--prefer-offline', '--loglevel=error', '--progress=false'], folder)
  if (code !== 0) throw new Error(`npm ${verb} in ${path.relative(ROOT, folder)} ended with ${code}`)
  await writeFile(mark, hash)
  process.stdout.write(
    `installed ${path.relative(ROOT, folder)} in ${Math.round((performance.now() - begin) / 1000)} s\n`,
  )
}

await install(HERE)
for (const [folder, agents] of [
  ['agents', /^agents/],
  ['nightly', /^nightly.(?!go|java|text-agents|lm-eval)/],
] as const) {
  if (files.some((file) => agents.test(file))) await install(path.join(HERE, folder))
}
if (files.some((file) => /^nightly.(aider|mini|snippets)/.test(file))) pythonAgents()
if (files.some((file) => /^nightly.go/.test(file))) goClients()
if (files.some((file) => /^nightly.java/.test(file))) javaClients()
if (files.some((file) => file.startsWith('python'))) pythonClients()
if (files.some((file) => /^nightly.text-agents/.test(file))) pythonClients('text-agents.txt')
if (files.some((file) => /^nightly.lm-eval/.test(file))) pythonClients('lm-eval.txt')

const require = createRequire(import.meta.url)
const typed =
  (await exitOf(
    process.execPath,
    [path.join(path.dirname(require.resolve('typescript/package.json')), 'bin/tsc'), '--noEmit', '-p', HERE],
    ROOT,
  )) === 0

const passed = await runTests(
  files.map((file) => path.join(HERE, file)),
  { concurrency: files.some((file) => file.startsWith('nightly')) ? 1 : 2, timeout: 900_000, cwd: ROOT },
)
process.exitCode ??= passed && typed ? 0 : 1
