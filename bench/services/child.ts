/** One service in its own process, so that its resource usage can be measured: `child.ts SERVICE CONFIG`, as JSON. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { schemaTexts } from '@instar/events'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openEmbeddedLog, openMemoryLog, openSnapshots, type EventLog } from '@instar/log'
import { openKafkaLog } from '@instar/log/kafka/index'
import type { LearningEngine, Model } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import { startPostgres, startProjections } from '@instar/projections'
import { createPublisher, probesOf, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { InstantEngine } from './engine.ts'
import type { Reply, Request, Service, ServiceConfig, Usage } from './process.ts'

const [, , service, configText] = process.argv as [string, string, Service, string]
const config = JSON.parse(configText) as ServiceConfig
const schemas = schemaTexts()
const now = (): number => Date.now()
const onFatal = (error: Error): void => {
  console.error(error)
  process.exit(1)
}

let startedAt = 0
let cpu = process.cpuUsage()
/** Starts the measurement again: the time and CPU before are not the service's. */
const resetUsage = (): void => {
  startedAt = performance.now()
  cpu = process.cpuUsage()
}

const openLog = (): EventLog | Promise<EventLog> => {
  if (config.log === 'memory') return openMemoryLog()
  if (config.log === 'embedded') return openEmbeddedLog({ folder: config.folder, schemas })
  const { brokers, prefix } = config
  return openKafkaLog({
    brokers,
    prefix,
    clientId: service,
    schemas,
    registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
  })
}

/** `settled` resolves when the service has no unfinished work. `lastTokenAt`: as of `InstantEngine`. */
type StartedService = {
  url?: string
  settled(): Promise<unknown>
  stop(): Promise<void>
  lastTokenAt?: ReadonlyMap<number, number>
}

const openLearning = async (folder: string): Promise<{ model: Model; learner: LearningEngine }> => {
  const [model, learner] = await Promise.all([openModel(folder), startLearning({ model: folder, engine: 'auto' })])
  return { model, learner }
}

const waitUntil = async (done: () => Promise<boolean>): Promise<void> => {
  while (!(await done()))
    await new Promise((resolve) => {
      setTimeout(resolve, 10)
    })
}

/** Larger than the number of versions: the turns are all captured before the first update, and none may be stale. */
const MAX_STALENESS = 1_000_000

const openSnapshotStore = () => openSnapshots(join(config.scratch, 'snapshots'), { logLine: console.error })

const never = (): Promise<never> => new Promise(() => undefined)

const SERVICES: Record<Service, (log: EventLog) => Promise<StartedService>> = {
  async gateway(log) {
    const model = await openModel(config.model)
    const engine = new InstantEngine(model)
    const gateway = createGateway(
      { log, snapshots: openSnapshotStore(), engine, model, now, random: (bytes) => randomBytes(bytes), onFatal },
      gatewayConfig({ port: 0 }),
    )
    const { url } = await gateway.start()
    return { url, lastTokenAt: engine.lastTokenAt, settled: never, stop: () => gateway.stop() }
  },
  async scorer(log) {
    const scorer = createScorer(
      { log, snapshots: openSnapshotStore(), now, onFatal },
      scorerConfig.parse({ idleMs: 1000 }),
    )
    await scorer.start()
    return { settled: () => waitUntil(() => scorer.settled()), stop: () => scorer.stop() }
  },
  async trainer(log) {
    const trainer = createTrainer(
      { log, snapshots: openSnapshotStore(), ...(await openLearning(config.model)), now, onFatal },
      trainerConfig.parse({ staleness: MAX_STALENESS }),
    )
    await trainer.start()
    return { settled: never, stop: () => trainer.stop() }
  },
  async publisher(log) {
    const { learner, model } = await openLearning(config.model)
    const publisher = createPublisher(
      {
        log,
        snapshots: openSnapshotStore(),
        evaluator: learner,
        model,
        probes: probesOf(config.model),
        now,
        onFatal,
      },
      publisherConfig.parse({}),
    )
    await publisher.start()
    return { settled: never, stop: () => publisher.stop() }
  },
  async projections(log) {
    const postgres = await startPostgres({ folder: config.scratch })
    resetUsage()
    const projections = startProjections({ log, snapshots: openSnapshotStore(), connection: postgres.owner })
    return {
      settled: () => projections.caughtUp(),
      async stop() {
        await projections.stop()
        await postgres.stop()
      },
    }
  },
}

const log = await openLog()
resetUsage()
const started = await SERVICES[service](log)
const send = (reply: Reply): void => void process.send!(reply)
const usage = (): Usage => {
  const { user, system } = process.cpuUsage(cpu)
  return {
    seconds: (performance.now() - startedAt) / 1000,
    cpuSeconds: (user + system) / 1e6,
    megabytes: process.resourceUsage().maxRSS / 1024,
  }
}
process.on('message', (request: Request) => {
  void (async () => {
    if (request.type === 'settled') await started.settled()
    const lastTokens = request.type === 'lastTokens' ? [...(started.lastTokenAt ?? [])] : undefined
    send({ usage: usage(), ...(lastTokens ? { lastTokens } : {}) })
  })()
})
process.on('disconnect', () => {
  void started
    .stop()
    .then(() => log.close())
    .then(() => process.exit(0))
})
send({ usage: usage(), ...(started.url === undefined ? {} : { url: started.url }) })
