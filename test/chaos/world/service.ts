/**
 * One service as a process that is restarted like a container: when it ends without a stop, the same command is started
 * again. Ends that a test did not cause are counted separately.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { guarded, type Guarded } from '../../kit/stack/guarded.ts'
import { ROOT } from '../../../tools/tree.ts'

export const PROGRAMS = {
  gateway: 'services/gateway/src/main.ts',
  scorer: 'services/scorer/src/main.ts',
  trainer: 'services/trainer/src/main.ts',
  publisher: 'services/publisher/src/main.ts',
  projections: 'packages/projections/src/main.ts',
} as const
export type Kind = keyof typeof PROGRAMS

export type Service = {
  readonly kind: Kind
  readonly name: string
  /** The address of `/health/…`; of a gateway also of `/v1`. */
  readonly url: string
  /** Exit codes of ends that no test caused: 1 after a fatal error, 137 after a kill by the system. */
  readonly crashes: readonly { status: number; said: string }[]
  /** Resolves when `/health/ready` returns 200. */
  ready(): Promise<void>
  health(): Promise<{ status: string; problem: unknown; [figure: string]: unknown }>
  /** kill -9, then a restart, with `forgetting` on an empty data folder; resolves when the old process has ended. */
  kill(forgetting?: boolean): Promise<void>
  /** SIGSTOP and SIGCONT of the process itself. `pause` throws without a process. */
  pause(): void
  resume(): void
  /** SIGTERM without a restart. Resolves with the exit code. */
  stop(): Promise<number>
  /** kill -9 without a restart. */
  end(): Promise<void>
  /** The last 3000, or `length`, characters of its output. */
  said(characters?: number): string
}

/** Delay between an end and the restart, that of Docker's first restart. */
const BREATH_MS = 100
const READY_MS = 120_000
/** A process that ends this soon, this often in a row, is not restarted. */
const HOPELESS = 20

type ServiceOptions = {
  kind: Kind
  name: string
  folder: string
  port: number
  env: Record<string, string>
  /** The folder of its build. Default: this one. */
  root?: string
  /** Limit of `ready`, milliseconds. Default: two minutes. */
  readyMs?: number
}

export const startService = ({
  kind,
  name,
  folder,
  port,
  env,
  root = ROOT,
  readyMs = READY_MS,
}: ServiceOptions): Service => {
  const url = `http://127.0.0.1:${port}`
  const crashes: { status: number; said: string }[] = []
  let stopping = false
  let ours = false
  let inARow = 0
  let child: Guarded
  const data = join(folder, name)
  let forget = false
  const launch = (): void => {
    ours = false
    if (forget) rmSync(data, { recursive: true, force: true })
    forget = false
    child = guarded([process.execPath, join(root, PROGRAMS[kind])], {
      folder,
      name,
      cwd: folder,
      env: { ...env, INSTAR_DATA: data, [kind === 'gateway' ? 'INSTAR_PORT' : 'INSTAR_HEALTH_PORT']: String(port) },
    })
    const current = child
    void current.exited.then(async (status) => {
      if (stopping) return
      if (ours) inARow = 0
      else {
        crashes.push({ status, said: current.said() })
        inARow += 1
      }
      await pause(BREATH_MS)
      if (!stopping && inARow < HOPELESS) launch()
    })
  }
  /** A new process may not have written its process id yet, and an ended one has an old id. */
  const signal = (name: NodeJS.Signals): void => {
    try {
      process.kill(child.pid(), name)
    } catch (error) {
      if (!['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  launch()
  const health: Service['health'] = async () => {
    const response = await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(5_000) })
    return (await response.json()) as Awaited<ReturnType<Service['health']>>
  }
  return {
    kind,
    name,
    url,
    crashes,
    health,
    async ready() {
      for (const until = Date.now() + readyMs; ; await pause(50)) {
        if (
          await fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(5_000) }).then(
            ({ ok, body }) => body?.cancel().then(() => ok) ?? ok,
            () => false,
          )
        )
          return
        if (Date.now() > until || inARow >= HOPELESS) throw new Error(`${name} is not ready:\n${child.said()}`)
      }
    },
    async kill(forgetting = false) {
      const current = child
      ours = true
      forget ||= forgetting
      await current.kill()
    },
    pause: () => void process.kill(child.pid(), 'SIGSTOP'),
    resume: () => signal('SIGCONT'),
    stop() {
      stopping = true
      signal('SIGTERM')
      return child.exited
    },
    async end() {
      stopping = true
      await child.kill()
    },
    said: (characters) => child.said(characters),
  }
}
