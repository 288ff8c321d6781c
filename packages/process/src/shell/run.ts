/**
 * A service as a process of its own: its environment, its log, its health, its end. SIGTERM or SIGINT stops
 * it in good order (exit code 0); a fault that it cannot outlive ends it (1), and whoever runs it starts it again.
 */
import { ERRORS, InstarError } from '@instar/events/errors'
import { openSnapshots, type EventLog, type SnapshotStore } from '@instar/log'
import { join } from 'node:path'
import { readSettings, type Environment, type Settings } from '../environment.ts'
import { measuredLog } from '../metrics/measured-log.ts'
import { createMetrics, type Metrics } from '../metrics/metrics.ts'
import { serviceLog } from '../service-log.ts'
import { startHealth, type Health } from './health.ts'
import { openKafka } from './open-log.ts'

export type Service = {
  /** What it says of itself once it is ready. */
  line: string
  health(): Health
  stop(): Promise<void>
}

export type World = {
  settings: Settings
  /** With the topics that the flow table gives to this service. */
  log: EventLog
  /** In INSTAR_DATA. */
  snapshots: SnapshotStore
  /** What `/metrics` tells; the log's part is in it. */
  metrics: Metrics
  now: () => number
  say: (line: string) => void
  onFatal: (error: Error) => void
  /** Aborted when the process is asked to stop while it starts. */
  signal: AbortSignal
}

/** The process: what `main.ts` alone touches. */
export type Host = {
  env: Environment
  cwd: string
  out(text: string): void
  err(text: string): void
  exit(code: number): void
  stop: AbortSignal
}

/** A part that does not stop by itself is not waited for longer. */
const STOP_MS = 20_000

export const runService = async (
  name: string,
  host: Host,
  start: (world: World) => Promise<Service>,
): Promise<number> => {
  const say = (line: string): void => host.err(`${new Date().toISOString()} ${name}: ${line}\n`)
  const fault = Promise.withResolvers<never>()
  fault.promise.catch(() => undefined)
  const asked = new Promise<null>((resolve) => {
    if (host.stop.aborted) resolve(null)
    else host.stop.addEventListener('abort', () => resolve(null), { once: true })
  })
  const ends: (() => Promise<unknown>)[] = []
  let service: Service | null = null
  const health = (): Health =>
    host.stop.aborted
      ? { status: 'stopping', problem: 'stopping' }
      : service
        ? service.health()
        : { status: 'starting', problem: 'starting' }
  const begin = async (): Promise<Service> => {
    const settings = readSettings(host.env, host.cwd)
    const metrics = createMetrics()
    if (settings.healthPort !== null && name !== 'gateway') {
      const server = await startHealth(settings.host, settings.healthPort, health, metrics)
      ends.push(() => server.stop())
      say(`health on http://${settings.host}:${server.port}/health/ready`)
    }
    const log = serviceLog(measuredLog(await openKafka(settings, { name, say }), metrics), name)
    ends.push(() => log.close())
    const snapshots = openSnapshots(join(settings.data, 'snapshots'), { say })
    const started = await start({
      settings,
      log,
      snapshots,
      metrics,
      now: () => Date.now(),
      say,
      onFatal: fault.reject,
      signal: host.stop,
    })
    ends.push(() => started.stop())
    return started
  }
  let code = 0
  const starting = begin()
  starting.catch(() => undefined)
  try {
    service = await Promise.race([starting, fault.promise, asked])
    if (service) {
      host.out(`${name} ready: ${service.line}\n`)
      await Promise.race([asked, fault.promise])
    }
  } catch (error) {
    code = 1
    logFault(say, error as Error)
  }
  const force = setTimeout(() => {
    say('not waiting any longer for what does not stop')
    host.exit(1)
  }, STOP_MS)
  await starting.catch(() => undefined)
  for (const end of ends.reverse()) {
    await end().catch((error: unknown) => {
      logFault(say, error as Error)
      code = 1
    })
  }
  clearTimeout(force)
  say(code === 0 ? 'stopped' : 'ended by the fault above')
  return code
}

const logFault = (say: (line: string) => void, error: Error): void => {
  if (error instanceof InstarError && error.code !== 'internal')
    say(`${error.code}: ${error.message} ${ERRORS[error.code].todo}`)
  else say(error.stack ?? error.message)
}
