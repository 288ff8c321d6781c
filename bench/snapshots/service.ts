/**
 * One life of one service on a log: how long until it is ready, what it took. `service.ts NAME LOG SNAPSHOTS`, the
 * last '-' for none; the result is one line of JSON. Engines are stand-ins: nothing is learned or served here.
 */
import { openEmbeddedLog, openSnapshots, type SnapshotStore } from '@instar/log'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { createPublisher, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { openModel } from '@instar/policy'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { ScriptedEngine } from '../../test/kit/scripted-engine.ts'
import { ScriptedLearner } from '../../test/kit/scripted-learner.ts'

export type Life = {
  startMs: number
  readySeconds: number
  cpuSeconds: number
  stopSeconds: number
  peakMiB: number
  longestPauseMs: number
}

type Startable = { start(): Promise<unknown>; stop(): Promise<void> }

const [name, folder, place] = process.argv.slice(2)
if (!name || !folder || !place) throw new Error('service.ts NAME LOG SNAPSHOTS')

const log = await openEmbeddedLog({ folder, readOnly: true })
const model = await openModel(fileURLToPath(new URL('../../models/tiny', import.meta.url)))
const snapshots: SnapshotStore | undefined =
  place === '-' ? undefined : openSnapshots(place, { say: (line) => process.stderr.write(`${line}\n`) })
const ports = {
  log,
  snapshots,
  model,
  now: Date.now,
  onFatal: (error: Error) => {
    throw error
  },
}
const MADE: Record<string, () => Startable> = {
  scorer: () => createScorer(ports, scorerConfig.parse({})),
  trainer: () => createTrainer({ ...ports, learner: new ScriptedLearner() }, trainerConfig.parse({})),
  publisher: () => createPublisher({ ...ports, learner: new ScriptedLearner(), probes: [] }, publisherConfig.parse({})),
  gateway: () =>
    createGateway(
      { ...ports, engine: new ScriptedEngine(model, () => ''), random: randomBytes },
      gatewayConfig({ port: 0 }),
    ),
}
const delays = monitorEventLoopDelay({ resolution: 1 })
delays.enable()
const seconds = (from: number): number => (performance.now() - from) / 1000
const startMs = performance.now()
const cpu = process.cpuUsage()
const service = MADE[name]!()
await service.start()
const readySeconds = seconds(startMs)
const { user, system } = process.cpuUsage(cpu)
const cpuSeconds = (user + system) / 1e6
const stopping = performance.now()
await service.stop()
const stopSeconds = seconds(stopping)
delays.disable()
await log.close()
process.stdout.write(
  `${JSON.stringify({ startMs, readySeconds, cpuSeconds, stopSeconds, peakMiB: process.resourceUsage().maxRSS / 1024, longestPauseMs: delays.max / 1e6 } satisfies Life)}\n`,
)
