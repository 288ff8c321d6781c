/** The package that installs without a clone: its contents, its sizes, and its commands in an empty folder. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { DatabaseSync } from 'node:sqlite'
import { arithmetic } from '@instar/policy/runtime/fingerprint'
import { ROOT } from '../../tools/tree.ts'
import { bytesOf, install, json, pack, run, start, temporary, type Tarball } from './installed.ts'

const LIMIT = { packed: 7e6, unpacked: 14e6, installed: 900e6 }
const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')

/** A size that the README states, in bytes. */
const stated = (words: RegExp): number => Number(words.exec(README)?.[1]) * 1e6
const near = (bytes: number, said: number): void =>
  ok(Math.abs(bytes / said - 1) < 0.1, `${bytes} bytes; the README says ${said}`)

let tarball: Tarball
let folder: string
const instar = (...args: string[]): string[] => ['npx', '--no-install', 'instar', ...args]

/** The code version of each snapshot in a data folder. */
const foldVersions = (data: string): Record<string, unknown> =>
  Object.fromEntries(
    readdirSync(join(data, 'snapshots'))
      .filter((name) => name.endsWith('.db'))
      .toSorted()
      .map((name) => {
        const database = new DatabaseSync(join(data, 'snapshots', name), { readOnly: true })
        try {
          return [name, database.prepare("select value from meta where name = 'version'").get()?.['value']]
        } finally {
          database.close()
        }
      })
      .filter(([, version]) => version !== undefined),
  ) as Record<string, unknown>

type Ready = { url: string; data: string; learning: string; version: number }

/** `instar up` by some command; `stop` is Ctrl-C in its terminal. */
const up = async (command: readonly string[], cwd: string) => {
  const started = start([...command, 'up', '--port', '0', '--json'], cwd)
  const ready = await new Promise<Ready>((resolve, reject) => {
    started.child.on('said', () => {
      const line = started
        .out()
        .split('\n')
        .find((one) => one.startsWith('{"url"') && one.endsWith('}'))
      if (line) resolve(JSON.parse(line) as Ready)
    })
    void started.ended.then(({ out, err }) => reject(new Error(`ended before it was up: ${out}${err}`)))
  })
  const stop = async () => {
    process.kill(-started.child.pid!, 'SIGINT')
    return started.ended
  }
  return { ready, stop }
}

type Message = { role: string; content: string }
const chat = async (
  url: string,
  messages: readonly Message[],
): Promise<{ version: string | null; content: string }> => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', max_tokens: 32, messages }),
  })
  equal(response.status, 200, await response.clone().text())
  const { choices } = (await response.json()) as { choices: { message: Message }[] }
  return { version: response.headers.get('x-instar-version'), content: choices[0]!.message.content }
}

describe('the package', () => {
  before(async () => {
    tarball = pack(temporary())
    folder = await install(tarball)
  })

  test('the package holds modules, their sources and assets as committed, and no test, bench or hidden file', () => {
    const there = join(folder, 'node_modules', 'instar')
    const tracked = new Set(spawnSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).stdout.split('\n'))
    const held = readdirSync(there, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(there.length + 1))
      .filter((path) => !path.startsWith('node_modules/'))
    ok(held.length > 500, `${held.length} files`)
    for (const path of held) {
      ok(!/\.test\.|(^|\/)(test|bench|fixtures|docs|skills)\/|(^|\/)\./.test(path), path)
      const text = readFileSync(join(there, path))
      if (path.endsWith('.js')) {
        ok(held.includes(path.replace(/\.js$/, '.ts')), `${path} has no source beside it`)
        ok(
          !/['"]@instar\/[^'"]*['"]\)|from ['"]@instar/.test(text.toString()),
          `${path} imports a workspace by its name`,
        )
      } else if (path !== 'package.json') {
        ok(tracked.has(path), `${path} is not committed`)
        ok(text.equals(readFileSync(join(ROOT, path))), `${path} differs from the repository's`)
      }
      ok(!text.includes(ROOT), `${path} names a folder of the machine that built it`)
      ok(!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text.toString('latin1')), `${path} holds a private key`)
    }
    for (const path of ['LICENSE', 'NOTICE', 'CHANGELOG.md', 'models/tiny/model.safetensors', 'models/tiny/README.md'])
      ok(held.includes(path), path)
  })

  test('the package has the sizes that the README states', () => {
    near(tarball.packed_bytes, stated(/tarball of ([\d.]+) MB/))
    ok(tarball.packed_bytes < LIMIT.packed, `${tarball.packed_bytes} bytes packed`)
    ok(tarball.unpacked_bytes < LIMIT.unpacked, `${tarball.unpacked_bytes} bytes unpacked`)
    const installed = bytesOf(folder)
    ok(installed < LIMIT.installed, `${installed} bytes installed`)
    if (process.platform === 'linux' && process.arch === 'x64') near(installed, stated(/installed, ([\d.]+) MB/))
  })

  test('the package installs versions that are in the lockfile', () => {
    type Packages = Record<string, { version?: string }>
    const packages = (file: string): string[] =>
      Object.entries((JSON.parse(readFileSync(file, 'utf8')) as { packages: Packages }).packages)
        .filter(([path]) => path !== 'node_modules/instar')
        .map(([path, { version }]) => `${path.slice(path.lastIndexOf('node_modules/') + 13)} ${version}`)
    const lock = new Set(packages(join(ROOT, 'package-lock.json')))
    const installed = packages(join(folder, 'node_modules', '.package-lock.json'))
    deepEqual(
      installed.filter((one) => !lock.has(one)),
      [],
    )
    ok(
      installed.some((one) => one.startsWith('onnxruntime-node ')),
      'the fast engine is there',
    )
  })

  test('the package prints its version and commands, with the exit codes of the repository', async () => {
    const version = await run(instar('--version'), folder)
    deepEqual([version.code, version.out], [0, `${VERSION}\n`], version.err)
    const help = await run(instar('--help'), folder)
    equal(help.code, 0, help.err)
    match(help.out, /^ {2}rollback {2}/m)
    equal((await run(instar('nonsense'), folder)).code, 2)
  })

  test('up serves, scores a correction and stops on Ctrl-C, and the repository reads its log', async () => {
    const first = await up(instar(), folder)
    match(first.ready.learning, new RegExp(`arithmetic ${arithmetic()}\\b`))
    const question = { role: 'user', content: 'What is 2 plus 3?' }
    const answer = await chat(first.ready.url, [question])
    equal(answer.version, '0')
    for (const page of ['/', '/dashboard/app.ts', '/dashboard/pages/now.ts', '/dashboard/vendor/preact.js'])
      equal((await fetch(`${first.ready.url}${page}`)).status, 200, page)
    await chat(first.ready.url, [
      question,
      { role: 'assistant', content: answer.content },
      { role: 'user', content: 'No, that is wrong. Answer in one plain sentence.' },
    ])
    let rewards: { reward: number }[] = []
    for (const until = Date.now() + 60_000; rewards.length === 0 && Date.now() < until;) {
      const { code, out, err } = await run(instar('sql', 'select reward from scores', '--json'), folder)
      equal(code, 0, err)
      rewards = json(out) as { reward: number }[]
    }
    ok(rewards.length === 1 && rewards[0]!.reward < 0, JSON.stringify(rewards))
    const { out, err } = await first.stop()
    equal(err.match(/stopping/g)?.length, 1, `${out}${err}`)
    const written = foldVersions(first.ready.data)
    ok(Object.keys(written).length >= 5, JSON.stringify(written))

    const versions = await run(instar('versions', '--json'), folder)
    equal(versions.code, 0, versions.err)
    deepEqual(
      (json(versions.out) as { version: number; status: string }[]).map((one) => [one.version, one.status]),
      [[0, 'serving']],
    )

    const again = await up([process.execPath, join(ROOT, 'cli/instar.cjs')], folder)
    equal((await again.stop()).code, 0)
    deepEqual(foldVersions(first.ready.data), written)
  })

  test('the short demo learns, and the repository verifies its versions bit for bit', async () => {
    const place = temporary()
    const demo = await run(instar('demo', '--short', '--json', '--keep'), folder, { TMPDIR: place })
    equal(demo.code, 0, demo.err)
    const told = json(demo.out) as { versions: number; failed_requests: number }
    equal(told.failed_requests, 0)
    ok(told.versions >= 1, demo.out)
    const data = join(
      place,
      readdirSync(place).find((name) => name.startsWith('instar-'))!,
    )
    const versions = await run(instar('versions', '--json'), folder, { INSTAR_DATA: data })
    equal((json(versions.out) as unknown[]).length > told.versions, true, versions.out)
    const verified = await run([process.execPath, join(ROOT, 'cli/instar.cjs'), 'verify', 'all', '--json'], folder, {
      INSTAR_DATA: data,
    })
    equal(verified.code, 0, verified.err)
    const { ok: holds, batches } = json(verified.out) as { ok: boolean; batches: { mode: string }[] }
    deepEqual([holds, batches.length >= told.versions], [true, true])
    deepEqual([...new Set(batches.map(({ mode }) => mode))], ['recompute'])
  })
})
