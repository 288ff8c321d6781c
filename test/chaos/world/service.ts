/**
 * One of our services as a process of its own, kept alive as a container is: when it ends without having been told
 * to, the same command is started again. Ends that nobody caused are told apart from those that a test did.
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
  /** Where it answers `/health/…`; of a gateway also `/v1`. */
  readonly url: string
  /** Ends that nobody asked for: 1 after a fatal fault, 137 where the system killed it. */
  readonly crashes: readonly { status: number; said: string }[]
  /** Resolves when `/health/ready` says yes. */
  ready(): Promise<void>
  health(): Promise<{ status: string; problem: unknown; [figure: string]: unknown }>
  /** kill -9. It is started again, `forgetting` with an empty data folder; resolves when the old process is gone. */
  kill(forgetting?: boolean): Promise<void>
  /** SIGSTOP and SIGCONT of the process itself. `pause` throws where there is none. */
  pause(): void
  resume(): void
  /** SIGTERM, and not started again. The exit status. */
  stop(): Promise<number>
  /** kill -9, and not started again. */
  end(): Promise<void>
  /** The end of what it wrote, 3000 characters or as many as are asked for. */
  said(characters?: number): string
}

/** Between an end and the next start, as Docker's first wait. */
const BREATH_MS = 100
const READY_MS = 120_000
/** Ends by itself within so short a time, so often in a row: it will not come up. */
const HOPELESS = 20

type ServiceOptions = {
  kind: Kind
  name: string
  folder: string
  port: number
  env: Record<string, string>
  /** The folder of the build that it is of. Default: this one. */
  root?: string
}

export const startService = ({ kind, name, folder, port, env, root = ROOT }: ServiceOptions): Service => {
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
  /** A process that is a moment old has no number yet, one that is gone has an old one. */
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
      for (const until = Date.now() + READY_MS; ; await pause(50)) {
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
