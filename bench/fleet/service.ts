/**
 * One service of a fleet in its own process: `service.ts SERVICE CONFIG`, as JSON. Its clock is the simulated one, its
 * engine answers at once, and trainer and publisher have learning engines that do not compute.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { schemaTexts } from '@instar/events'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { LONGEST_TIMER_MS, openSnapshots } from '@instar/log'
import { openKafkaLog } from '@instar/log/kafka/index'
import { openModel } from '@instar/policy'
import { startPostgres, startProjections } from '@instar/projections'
import { existingPaths } from '@instar/projections/postgres/server-paths'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { ScriptedLearner } from '../../test/kit/scripted-learner.ts'
import { InstantEngine, uniqueOpenings } from '../services/engine.ts'
import type { Reply, Service } from '../services/process.ts'
import { simulatedAt, type Clock } from './day.ts'

/** `scratch`: a folder for the files of this process. `scoresAlone`: of a trainer, true by default. */
export type FleetServiceConfig = {
  brokers: string[]
  prefix: string
  model: string
  scratch: string
  clock: Clock
  scoresAlone?: boolean
}

const [, , service, configText] = process.argv as [string, string, Service, string]
const {
  brokers,
  prefix,
  model: modelFolder,
  scratch,
  clock,
  scoresAlone = true,
} = JSON.parse(configText) as FleetServiceConfig
const now = (): number => simulatedAt(clock, Date.now())
const logLine = (line: string): void => {
  console.error(`${service}: ${line}`)
}
const onFatal = (error: Error): void => {
  console.error(error)
  process.exit(1)
}
const schemas = schemaTexts()
const startedAt = performance.now()
const log = await openKafkaLog({
  brokers,
  prefix,
  clientId: service,
  schemas,
  registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
})
const ports = { log, snapshots: openSnapshots(join(scratch, 'snapshots'), { logLine }), now, onFatal }
/** `helper`: the process of a program that the service uses. */
type Started = { url?: string; helper?: number; settled?: () => Promise<unknown>; stop(): Promise<void> }

const simulatedTimer = (ms: number, then: () => void): (() => void) => {
  const timer = setTimeout(then, Math.min(ms / clock.speed, LONGEST_TIMER_MS))
  return () => clearTimeout(timer)
}

const SERVICES: Record<Service, () => Promise<Started>> = {
  async gateway() {
    const model = await openModel(modelFolder)
    const engine = new InstantEngine(model, uniqueOpenings(model))
    const gateway = createGateway({ ...ports, engine, model, random: randomBytes }, gatewayConfig({ port: 0 }))
    const { url } = await gateway.start()
    return { url, stop: () => gateway.stop() }
  },
  async scorer() {
    const scorer = createScorer({ ...ports, after: simulatedTimer }, scorerConfig.parse({}))
    await scorer.start()
    // It reads its partitions of `turns` once they are assigned to it.
    while (!(await scorer.settled())) await pause(20)
    return scorer
  },
  async trainer() {
    const model = await openModel(modelFolder)
    const config = trainerConfig.parse({ scoresAlone })
    const trainer = createTrainer({ ...ports, model, learner: new ScriptedLearner() }, config)
    await trainer.start()
    if (scoresAlone !== (trainer.state.reads === 'scores')) throw new Error(`the trainer reads ${trainer.state.reads}`)
    return trainer
  },
  async publisher() {
    const model = await openModel(modelFolder)
    const publisher = createPublisher(
      { ...ports, model, evaluator: new ScriptedLearner(), probes: NO_PROBES },
      publisherConfig.parse({}),
    )
    await publisher.start()
    return publisher
  },
  async projections() {
    const postgres = await startPostgres({ folder: scratch })
    const projections = startProjections({ log, snapshots: ports.snapshots, connection: postgres.owner })
    await projections.caughtUp()
    const paths = existingPaths(scratch)
    return {
      ...(paths ? { helper: Number(readFileSync(join(paths.data, 'postmaster.pid'), 'utf8').split('\n')[0]) } : {}),
      settled: () => projections.caughtUp(),
      async stop() {
        await projections.stop()
        await postgres.stop()
      },
    }
  },
}

/** Loading the programs is not part of what a service costs. */
const loaded = process.cpuUsage()
const started = await SERVICES[service]()
const reply = (): Reply => {
  const { user, system } = process.cpuUsage(loaded)
  return {
    usage: {
      seconds: (performance.now() - startedAt) / 1000,
      cpuSeconds: (user + system) / 1e6,
      megabytes: process.resourceUsage().maxRSS / 1024,
    },
    ...(started.url === undefined ? {} : { url: started.url }),
    ...(started.helper === undefined ? {} : { helper: started.helper }),
  }
}
process.on('message', ({ type }: { type: string }) => {
  void (async () => {
    if (type === 'settled') await started.settled?.()
    process.send!(reply())
  })()
})
process.on('disconnect', () => {
  void started
    .stop()
    .then(() => log.close())
    .then(() => process.exit(0))
})
process.send!(reply())
