/**
 * `npm run check`: types (tsc), lint with type-aware rules (oxlint), format (oxfmt), layout rules (check/rules.ts).
 * Prints what each found; exit code 1 if anything was.
 */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { check, type Workspace } from './check/rules.ts'
import { scan } from './check/scan.ts'
import { committable, ROOT } from './tree.ts'

const require = createRequire(import.meta.url)

/** Runs the bin of an installed package; resolves with what it said and whether it passed. */
function tool(name: string, bin: string, args: readonly string[]): Promise<{ ok: boolean; output: string }> {
  const script = join(dirname(require.resolve(`${name}/package.json`)), bin)
  const child = spawn(process.execPath, [script, ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  const said: Buffer[] = []
  child.stdout.on('data', (bytes: Buffer) => said.push(bytes))
  child.stderr.on('data', (bytes: Buffer) => said.push(bytes))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ ok: code === 0, output: Buffer.concat(said).toString('utf8').trim() }))
  })
}

type Manifest = { name: string } & Partial<
  Record<'dependencies' | 'optionalDependencies' | 'peerDependencies' | 'devDependencies', Record<string, string>>
>

async function workspaces(paths: readonly string[]): Promise<Workspace[]> {
  const manifests = paths.filter((path) => /^((services|packages)\/[^/]+|cli)\/package\.json$/.test(path))
  return Promise.all(
    manifests.map(async (path) => {
      const manifest = JSON.parse(await readFile(join(ROOT, path), 'utf8')) as Manifest
      const { dependencies, optionalDependencies, peerDependencies } = manifest
      return {
        name: manifest.name,
        folder: dirname(path),
        dependencies: Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }),
      }
    }),
  )
}

async function layout(): Promise<{ ok: boolean; output: string }> {
  const paths = committable()
  const sources = await Promise.all(
    paths
      .filter((path) => /\.(ts|cjs|mjs|js)$/.test(path) && !path.startsWith('web/'))
      .map(async (path) => scan(path, await readFile(join(ROOT, path), 'utf8'))),
  )
  const findings = check({ sources, workspaces: await workspaces(paths) })
  return {
    ok: findings.length === 0,
    output: findings.map(({ rule, path, line, message }) => `${path}:${line} ${rule}: ${message}`).join('\n'),
  }
}

const STEPS = [
  ['types', () => tool('typescript', 'bin/tsc', ['--noEmit'])],
  ['lint', () => tool('oxlint', 'bin/oxlint', ['--type-aware', '--deny-warnings', '--format=unix'])],
  ['format', () => tool('oxfmt', 'bin/oxfmt', ['--check', '**/*.{ts,cjs,mjs,js}'])],
  ['layout', layout],
] as const

const results = await Promise.all(STEPS.map(async ([name, run]) => ({ name, ...(await run()) })))
for (const { name, ok, output } of results) {
  if (!ok) process.stdout.write(`${output}\n`)
  process.stdout.write(`check ${name}: ${ok ? 'ok' : 'FAILED'}\n`)
}
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1
