/**
 * Starts one service on a log, stops it, and prints the times and the memory as one line of JSON:
 * `service.ts NAME LOG SNAPSHOTS`, with `-` for no snapshots. Engines are test doubles.
 */
import { openEmbeddedLog, openSnapshots, type SnapshotStore } from '@instar/log'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { openModel } from '@instar/policy'
import { randomBytes } from 'node:crypto'
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

const [name, folder, snapshotFolder] = process.argv.slice(2)
if (!name || !folder || !snapshotFolder) throw new Error('usage: service.ts NAME LOG SNAPSHOTS')

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
const stopMs = performance.now()
await service.stop()
const stopSeconds = secondsSince(stopMs)
delays.disable()
await log.close()
process.stdout.write(
  `${JSON.stringify({ startMs, readySeconds, cpuSeconds, stopSeconds, peakMiB: process.resourceUsage().maxRSS / 1024, longestPauseMs: delays.max / 1e6 } satisfies ServiceStart)}\n`,
)
