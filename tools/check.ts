/**
 * `npm run check`: types (tsc), lint with type-aware rules (oxlint), format (oxfmt), layout rules (check/rules.ts).
 * Prints the findings of each; exit code 1 if there is one.
 */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { check, type Workspace } from './check/rules.ts'
import { scan } from './check/scan.ts'
import { sourceFiles, ROOT } from './tree.ts'

const require = createRequire(import.meta.url)

/** Runs the bin of an installed package; resolves with its output and whether its exit code was 0. */
function runTool(name: string, bin: string, args: readonly string[]): Promise<{ ok: boolean; output: string }> {
  const script = join(dirname(require.resolve(`${name}/package.json`)), bin)
  const child = spawn(process.execPath, [script, ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  const chunks: Buffer[] = []
  child.stdout.on('data', (bytes: Buffer) => chunks.push(bytes))
  child.stderr.on('data', (bytes: Buffer) => chunks.push(bytes))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString('utf8').trim() }))
  })
}

type Manifest = { name: string } & Partial<
  Record<'dependencies' | 'optionalDependencies' | 'peerDependencies' | 'devDependencies', Record<string, string>>
>

async function readWorkspaces(paths: readonly string[]): Promise<Workspace[]> {
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

async function checkLayout(): Promise<{ ok: boolean; output: string }> {
  const paths = sourceFiles()
  const sources = await Promise.all(
    paths
      .filter((path) => /\.(ts|cjs|mjs|js)$/.test(path) && !path.startsWith('web/'))
      .map(async (path) => scan(path, await readFile(join(ROOT, path), 'utf8'))),
  )
  const findings = check({ sources, workspaces: await readWorkspaces(paths) })
  return {
    ok: findings.length === 0,
    output: findings.map(({ rule, path, line, message }) => `${path}:${line} ${rule}: ${message}`).join('\n'),
  }
}

const STEPS = [
  ['types', () => runTool('typescript', 'bin/tsc', ['--noEmit'])],
  ['types of the dashboard', () => runTool('typescript', 'bin/tsc', ['--noEmit', '-p', 'packages/dashboard/web'])],
  ['lint', () => runTool('oxlint', 'bin/oxlint', ['--type-aware', '--deny-warnings', '--format=unix'])],
  ['format', () => runTool('oxfmt', 'bin/oxfmt', ['--check', '**/*.{ts,cjs,mjs,js}'])],
  ['layout', checkLayout],
] as const

const results = await Promise.all(STEPS.map(async ([name, run]) => ({ name, ...(await run()) })))
for (const { name, ok, output } of results) {
  if (!ok) process.stdout.write(`${output}\n`)
  process.stdout.write(`check ${name}: ${ok ? 'ok' : 'FAILED'}\n`)
}
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1
