/** One service in a process of its own, so that what it uses can be told: `child.ts <service> <place as JSON>`. */
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
import type { Answer, Place, Question, Service } from './process.ts'

const [, , service, given] = process.argv as [string, string, Service, string]
const place = JSON.parse(given) as Place
const schemas = schemaTexts()
const now = (): number => Date.now()
const onFatal = (error: Error): void => {
  console.error(error)
  process.exit(1)
}

let begun = 0
let cpu = process.cpuUsage()
/** What came before is not the service's work. */
const restart = (): void => {
  begun = performance.now()
  cpu = process.cpuUsage()
}

const openLog = (): EventLog | Promise<EventLog> => {
  if (place.log === 'memory') return openMemoryLog()
  if (place.log === 'embedded') return openEmbeddedLog({ folder: place.folder, schemas })
  const { brokers, prefix } = place
  return openKafkaLog({
    brokers,
    prefix,
    clientId: service,
    schemas,
    registry: new Map(Object.keys(schemas).map((name, i) => [name, i + 1])),
  })
}

/** `settled` resolves when everything on the log is worked on. */
type Part = {
  url?: string
  settled(): Promise<unknown>
  stop(): Promise<void>
  lastToken?: ReadonlyMap<number, number>
}

const learning = async (folder: string): Promise<{ model: Model; learner: LearningEngine }> => {
  const [model, learner] = await Promise.all([openModel(folder), startLearning({ model: folder, engine: 'auto' })])
  return { model, learner }
}

const until = async (done: () => Promise<boolean>): Promise<void> => {
  while (!(await done()))
    await new Promise((resolve) => {
      setTimeout(resolve, 10)
    })
}

/** The turns were all captured before the first update: none of them may be too old. */
const BACKLOG = 1_000_000

const snapshots = () => openSnapshots(join(place.scratch, 'snapshots'), { say: console.error })

const never = (): Promise<never> => new Promise(() => undefined)

const SERVICES: Record<Service, (log: EventLog) => Promise<Part>> = {
  async gateway(log) {
    const model = await openModel(place.model)
    const engine = new InstantEngine(model)
    const gateway = createGateway(
      { log, snapshots: snapshots(), engine, model, now, random: (bytes) => randomBytes(bytes), onFatal },
      gatewayConfig({ port: 0 }),
    )
    const { url } = await gateway.start()
    return { url, lastToken: engine.lastToken, settled: never, stop: () => gateway.stop() }
  },
  async scorer(log) {
    const scorer = createScorer({ log, snapshots: snapshots(), now, onFatal }, scorerConfig.parse({ idleMs: 1000 }))
    await scorer.start()
    return { settled: () => until(() => scorer.settled()), stop: () => scorer.stop() }
  },
  async trainer(log) {
    const trainer = createTrainer(
      { log, snapshots: snapshots(), ...(await learning(place.model)), now, onFatal },
      trainerConfig.parse({ staleness: BACKLOG }),
    )
    await trainer.start()
    return { settled: never, stop: () => trainer.stop() }
  },
  async publisher(log) {
    const publisher = createPublisher(
      { log, snapshots: snapshots(), ...(await learning(place.model)), probes: probesOf(place.model), now, onFatal },
      publisherConfig.parse({}),
    )
    await publisher.start()
    return { settled: never, stop: () => publisher.stop() }
  },
  async projections(log) {
    const postgres = await startPostgres({ folder: place.scratch })
    restart()
    const projections = startProjections({ log, snapshots: snapshots(), connection: postgres.owner })
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
restart()
const part = await SERVICES[service](log)
const answer = (reply: Answer): void => void process.send!(reply)
const usage = (): Answer['used'] => {
  const { user, system } = process.cpuUsage(cpu)
  return {
    seconds: (performance.now() - begun) / 1000,
    cpuSeconds: (user + system) / 1e6,
    megabytes: process.resourceUsage().maxRSS / 1024,
  }
}
process.on('message', (question: Question) => {
  void (async () => {
    if (question.ask === 'settled') await part.settled()
    const lastToken = question.ask === 'lastTokens' ? [...(part.lastToken ?? [])] : undefined
    answer({ used: usage(), ...(lastToken ? { lastToken } : {}) })
  })()
})
process.on('disconnect', () => {
  void part
    .stop()
    .then(() => log.close())
    .then(() => process.exit(0))
})
answer({ used: usage(), ...(part.url === undefined ? {} : { url: part.url }) })
