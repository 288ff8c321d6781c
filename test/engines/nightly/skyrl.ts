/** A real SkyRL (JAX on the CPU): installed once into .cache (6.5 GB), started on loopback. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, openSync, readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from '../../kit/stack/ready.ts'
import { pythonPrograms } from '../../kit/python.ts'
import { memoryOf } from './processes.ts'

export const VERSION = '0.4.0'
const START_MS = 15 * 60_000

/** The folder of the environment's programs, which are installed if they are not there. Throws without Python or network. */
export const installed = (): string =>
  pythonPrograms({
    name: `skyrl-${VERSION}`,
    // It imports aiohttp without requiring it.
    packages: [`skyrl[tinker,jax]==${VERSION}`, 'aiohttp'],
    locked: fileURLToPath(new URL('../../../deploy/skyrl/constraints.txt', import.meta.url)),
    from: 12,
    to: 13,
  })

/** `adapters`: slots for models, the base's own among them. `folder`: database and checkpoints, kept over a restart. */
export type SkyrlOptions = {
  model: string
  folder: string
  port?: number
  adapters?: number
  rank?: number
  /** Rows that a pass computes at once, which bounds its memory. 0: all. */
  rows?: number
  /** Computes activations again in the backward pass. */
  checkpointing?: boolean
}

export type Skyrl = {
  url: string
  log: string
  /** The memory of all its processes, MiB. */
  memory(): number
  /** Resolves when the server takes work. Rejects when it ends or takes longer than 15 minutes. */
  ready(): Promise<void>
  /** kill -9 of all its processes. */
  kill(): Promise<void>
  stop(): Promise<void>
}

export const startSkyrl = async ({
  model,
  folder,
  port,
  adapters = 12,
  rank = 8,
  rows = 0,
  checkpointing = false,
}: SkyrlOptions): Promise<Skyrl> => {
  const programs = installed()
  const at = port ?? (await freePort())
  mkdirSync(join(folder, 'checkpoints'), { recursive: true })
  const log = join(folder, `skyrl.${at}.${Date.now()}.log`)
  const file = openSync(log, 'a')
  const child = spawn(
    join(programs, 'uv'),
    // SkyRL reads its parent's command line to start its second process: the parent must be `uv run`.
    [
      'run',
      '--no-project',
      '-m',
      'skyrl.tinker.api',
      '--host',
      '127.0.0.1',
      '--port',
      String(at),
      '--base-model',
      model,
      '--backend',
      'jax',
      '--backend-config',
      JSON.stringify({
        max_lora_adapters: adapters,
        max_lora_rank: rank,
        train_micro_batch_size: rows,
        gradient_checkpointing: checkpointing,
      }),
      '--checkpoints-base',
      join(folder, 'checkpoints'),
      '--database-url',
      `sqlite:///${join(folder, 'tinker.db')}`,
    ],
    {
      stdio: ['ignore', file, file],
      detached: true,
      env: {
        ...process.env,
        PATH: `${programs}${delimiter}${process.env['PATH'] ?? ''}`,
        VIRTUAL_ENV: dirname(programs),
        JAX_PLATFORMS: 'cpu',
        CUDA_VISIBLE_DEVICES: '',
        HF_HUB_OFFLINE: '1',
      },
    },
  )
  const { pid } = child
  if (pid === undefined) throw new Error(`${programs}/uv does not start`)
  const exit = once(child, 'exit')
  let stopping = false
  const ended = exit.then(([code]): never => {
    const last = readFileSync(log, 'utf8').split('\n').slice(-30).join('\n')
    throw new Error(stopping ? 'stopped' : `SkyRL ended with ${String(code)}:\n${last}`)
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
  const url = `http://127.0.0.1:${at}`
  return {
    url,
    log,
    memory: () => memoryOf(pid),
    async ready() {
      const begin = performance.now()
      // Health is ok before the process that trains has started.
      while (
        !readFileSync(log, 'utf8').includes('Starting background engine') ||
        !(await fetch(`${url}/api/v1/healthz`).then(
          ({ ok }) => ok,
          () => false,
        ))
      ) {
        if (performance.now() - begin > START_MS) throw new Error(`SkyRL did not start: ${log}`)
        await Promise.race([pause(500), ended])
      }
    },
    async kill() {
      stopping = true
      signal('SIGKILL')
      await exit
    },
    async stop() {
      stopping = true
      signal('SIGTERM')
      const force = setTimeout(() => signal('SIGKILL'), 20_000)
      await exit
      clearTimeout(force)
      signal('SIGKILL')
    },
  }
}
