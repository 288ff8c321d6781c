/**
 * Starts one service on a log, stops it, or with `kill` kills it, and prints the times and the memory as one line of JSON:
 * `service.ts NAME LOG SNAPSHOTS stop|kill [CONNECTION]`, with `-` for no snapshots. CONNECTION: of the projections' PostgreSQL, as
 * JSON. Engines are test doubles.
 */
import { openEmbeddedLog, openSnapshots, type SnapshotStore } from '@instar/log'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { openModel } from '@instar/policy'
import { startProjections, type DatabaseConnection, type Projections } from '@instar/projections'
import { randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { ScriptedEngine } from '../../test/kit/scripted-engine.ts'
import { ScriptedLearner } from '../../test/kit/scripted-learner.ts'

/** `startMs`: since the start of the process. `cpuSeconds`: until ready. `longestPauseMs`: of the event loop. */
export type ServiceStart = {
  startMs: number
  readySeconds: number
  cpuSeconds: number
  stopSeconds: number
  peakMiB: number
  longestPauseMs: number
}

type Startable = { start(): Promise<unknown>; stop(): Promise<void> }

const [name, folder, snapshotFolder, end, connection] = process.argv.slice(2)
if (!name || !folder || !snapshotFolder) throw new Error('usage: service.ts NAME LOG SNAPSHOTS stop|kill')

const log = await openEmbeddedLog({ folder, readOnly: true })
const model = await openModel(fileURLToPath(new URL('../../models/tiny', import.meta.url)))
const snapshots: SnapshotStore | undefined =
  snapshotFolder === '-'
    ? undefined
    : openSnapshots(snapshotFolder, { logLine: (line) => process.stderr.write(`${line}\n`) })
const ports = {
  log,
  snapshots,
  model,
  now: Date.now,
  onFatal: (error: Error) => {
    throw error
  },
}
const projections = (): Startable => {
  let running: Projections | undefined
  return {
    async start() {
      const to = JSON.parse(connection ?? '') as DatabaseConnection
      running = startProjections({ log, connection: to, snapshots })
      await running.caughtUp()
    },
    stop: async () => running?.stop(),
  }
}
const SERVICES: Record<string, () => Startable> = {
  scorer: () => createScorer(ports, scorerConfig.parse({})),
  trainer: () => createTrainer({ ...ports, learner: new ScriptedLearner() }, trainerConfig.parse({})),
  publisher: () =>
    createPublisher({ ...ports, evaluator: new ScriptedLearner(), probes: NO_PROBES }, publisherConfig.parse({})),
  gateway: () =>
    createGateway(
      { ...ports, engine: new ScriptedEngine(model, () => ''), random: randomBytes },
      gatewayConfig({ port: 0 }),
    ),
  projections,
}
const delays = monitorEventLoopDelay({ resolution: 1 })
delays.enable()
const secondsSince = (ms: number): number => (performance.now() - ms) / 1000
const startMs = performance.now()
const cpu = process.cpuUsage()
const service = SERVICES[name]!()
await service.start()
const readySeconds = secondsSince(startMs)
const { user, system } = process.cpuUsage(cpu)
const cpuSeconds = (user + system) / 1e6
delays.disable()
const stopMs = performance.now()
if (end === 'stop') await service.stop()
const stopSeconds = secondsSince(stopMs)
if (end === 'stop') await log.close()
const measured: ServiceStart = {
  startMs,
  readySeconds,
  cpuSeconds,
  stopSeconds,
  peakMiB: process.resourceUsage().maxRSS / 1024,
  longestPauseMs: delays.max / 1e6,
}
writeSync(1, `${JSON.stringify(measured)}\n`)
if (end !== 'stop') process.kill(process.pid, 'SIGKILL')
