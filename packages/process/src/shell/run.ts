/**
 * Runs a service as a process: settings, log, health port, shutdown. SIGTERM, SIGINT and SIGHUP stop it in order (exit
 * code 0). A fatal error also stops it (exit code 1); the supervisor is expected to restart the process.
 */
import { ERRORS, InstarError } from '@instar/events/errors'
import { openSnapshots, type EventLog, type SnapshotStore } from '@instar/log'
import { join } from 'node:path'
import { logEntry } from '../printable.ts'
import { measuredLog } from '../metrics/measured-log.ts'
import { createMetrics, type Metrics } from '../metrics/metrics.ts'
import { serviceLog } from '../service-log.ts'
import { readSettings, type Environment, type Settings } from '../settings.ts'
import { foldingHealth, watchOtherBuilds } from './folding.ts'
import { startHealth, type Health } from './health.ts'
import { openKafka } from './open-log.ts'

export type Service = {
  /** A description for the line that is printed when the service is ready. */
  line: string
  health(): Health
  stop(): Promise<void>
}

type ServiceContext = {
  settings: Settings
  /** Restricted to the topics that the flow table lists for this service; its appends are measured. */
  log: EventLog
  /** Snapshots in INSTAR_DATA. */
  snapshots: SnapshotStore
  /** The metrics at `/metrics`. */
  metrics: Metrics
  now: () => number
  logLine: (line: string) => void
  onFatal: (error: Error) => void
  /** Aborted when the process is asked to stop. */
  signal: AbortSignal
}

/** The process, which only `main.ts` accesses directly. */
export type Host = {
  env: Environment
  cwd: string
  out(text: string): void
  err(text: string): void
  exit(code: number): void
  stop: AbortSignal
}

/** Time that shutdown may take before the process exits. */
const STOP_MS = 20_000

/** Resolves with the exit code when the service has stopped. `name`: as in the flow table. */
export const runService = async (
  name: string,
  host: Host,
  start: (context: ServiceContext) => Promise<Service>,
): Promise<number> => {
  const logLine = (line: string): void => host.err(`${new Date().toISOString()} ${name}: ${logEntry(line)}\n`)
  const fatal = Promise.withResolvers<never>()
  fatal.promise.catch(() => undefined)
  const stopRequested = new Promise<null>((resolve) => {
    if (host.stop.aborted) resolve(null)
    else host.stop.addEventListener('abort', () => resolve(null), { once: true })
  })
  /** Closers of what was opened, called in reverse order. */
  const closers: (() => Promise<unknown>)[] = []
  let service: Service | null = null
  let snapshots: SnapshotStore | null = null
  const metrics = createMetrics()
  const health = async (): Promise<Health> => {
    if (host.stop.aborted) return { status: 'stopping', problem: 'stopping' }
    if (service) return service.health()
    return (snapshots && (await foldingHealth(snapshots, metrics))) ?? { status: 'starting', problem: 'starting' }
  }
  const startService = async (): Promise<Service> => {
    const settings = readSettings(host.env, host.cwd)
    if (settings.healthPort !== null && name !== 'gateway') {
      const server = await startHealth(settings.host, settings.healthPort, health, metrics)
      closers.push(() => server.stop())
      logLine(`health on http://${settings.host}:${server.port}/health/ready`)
    }
    const log = serviceLog(measuredLog(await openKafka(settings, { name, logLine }), metrics), name)
    closers.push(() => log.close())
    snapshots = openSnapshots(join(settings.data, 'snapshots'), { logLine, checkpoints: settings.checkpoints })
    watchOtherBuilds(metrics, snapshots)
    const started = await start({
      settings,
      log,
      snapshots,
      metrics,
      now: () => Date.now(),
      logLine,
      onFatal: fatal.reject,
      signal: host.stop,
    })
    closers.push(() => started.stop())
    return started
  }
  let code = 0
  const starting = startService()
  starting.catch(() => undefined)
  try {
    service = await Promise.race([starting, fatal.promise, stopRequested])
    if (service) {
      host.out(`${name} ready: ${service.line}\n`)
      await Promise.race([stopRequested, fatal.promise])
    }
  } catch (error) {
    code = 1
    logError(logLine, error as Error)
  }
  const stopTimer = setTimeout(() => {
    logLine(`exiting: shutdown has not finished after ${STOP_MS / 1000} s`)
    host.exit(1)
  }, STOP_MS)
  await starting.catch(() => undefined)
  for (const close of closers.reverse()) {
    await close().catch((error: unknown) => {
      logError(logLine, error as Error)
      code = 1
    })
  }
  clearTimeout(stopTimer)
  logLine(code === 0 ? 'stopped' : 'stopped because of the error above')
  return code
}

const logError = (logLine: (line: string) => void, error: Error): void => {
  if (error instanceof InstarError && error.code !== 'internal')
    logLine(`${error.code}: ${error.message} ${ERRORS[error.code].todo}`)
  else logLine(error.stack ?? error.message)
}
