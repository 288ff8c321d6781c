/**
 * The one place that starts services in-process: gateway, scorer, trainer, publisher and projections, on
 * the embedded log and the embedded PostgreSQL unless the environment names others.
 */
import { join } from 'node:path'
import { ERRORS, InstarError, weightLine } from '@instar/events'
import { createGateway, gatewayConfig, type Gateway, type GatewayPorts, type GatewaySettings } from '@instar/gateway'
import { givesIds, openRemote, type RemoteSettings } from '@instar/gateway/shell/engines/open-remote'
import { randomBytes } from '@instar/gateway/shell/random'
import { announceUpgrade, openSnapshots, type EventLog, type SnapshotStore } from '@instar/log'
import { holdsWeights, openModel, startLearning, startServing, type EngineChoice, type Fingerprint, type LearningEngine, type Model, type ServingEngine } from '@instar/policy'
import { adminTokenIn, createMetrics, measuredLog, openLog, type Metrics, type Settings } from '@instar/process'
import { startPostgres, startProjections, watchProjections, type Postgres, type Projections } from '@instar/projections'
import { createPublisher, probesOf, publisherConfig, type Publisher, type PublisherPorts } from '@instar/publisher'
import { createScorer, scorerConfig, type Scorer } from '@instar/scorer'
import { createTrainer, trainerConfig, type Trainer, type TrainerPorts } from '@instar/trainer'
import { replayOptionsOf, runReplay } from './replays.ts'

export type PipelineConfig = {
  data: string
  /** The log that INSTAR_LOG names; default: the embedded one. */
  log?: Pick<Settings, 'log' | 'registry' | 'partitions'>
  model: string
  /** What serves. */
  engine: EngineChoice
  /** What serves in its place: an engine behind HTTP. Learning then needs the weights in `model`; else turns are captured only. */
  remote?: RemoteSettings
  /** What learns and measures candidates; default: what serves. */
  learnEngine?: EngineChoice
  /** A database of one's own; null: the embedded one. False: none (the demo). */
  database: string | null | false
  /** Of its reader; null or absent: what follows from the URL's. */
  databaseReaderPassword?: string | null
  /** INSTAR_PG_BIN: the folder of `postgres` and `initdb`, instead of the npm package's. */
  postgresPrograms?: string | null
  gateway: GatewaySettings
  scorer: Parameters<typeof scorerConfig.parse>[0]
  trainer: Parameters<typeof trainerConfig.parse>[0]
  publisher: Parameters<typeof publisherConfig.parse>[0]
}

export type PipelineHooks = {
  /** Gives up a start that is under way: it rejects with `aborted`. */
  signal?: AbortSignal
  onFatal: (error: Error) => void
  say: (line: string) => void
  onTraining?: TrainerPorts['onProgress']
  onVerdict?: PublisherPorts['onProgress']
}

export type Running = {
  url: string
  model: Model
  serving: string
  /** Null: turns are captured, nothing is learned. */
  learning: string | null
  psql: string | null
  log: EventLog
  /** Null where nothing is learned. */
  trainer: Trainer | null
  publisher: Publisher | null
  /** Resolves when everything said so far is scored, learned from and settled. */
  settled(): Promise<void>
  stop(): Promise<void>
}

/** `model`: where the engine's own is not that of the weights. */
type Serving = { engine: ServingEngine; line: string; model: Model | null; adapterFault: string | null }

const now = (): number => Date.now()
const SETTLE_POLL_MS = 15

export const startPipeline = async (config: PipelineConfig, hooks: PipelineHooks): Promise<Running> => {
  const started: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    const faults: unknown[] = []
    for (const end of started.splice(0).reverse()) await end().catch((fault: unknown) => faults.push(fault))
    if (faults.length > 0) throw faults[0]
  }
  const keep = <T>(part: T, end: (part: T) => Promise<unknown>): T => {
    started.push(() => end(part))
    return part
  }
  try {
    const metrics = createMetrics()
    const log = measuredLog(keep(await openLog({ log: 'embedded', registry: null, partitions: {}, ...config.log, data: config.data }, { name: 'instar', say: hooks.say }), (l) => l.close()), metrics)
    // Nobody else writes here while this process holds the folder; the record tells whoever gets a copy of the log.
    if (log.sole) await announceUpgrade(log, 'up', now(), hooks.signal ?? new AbortController().signal)
    const snapshots = openSnapshots(join(config.data, 'snapshots'), { say: hooks.say })
    const giveUp = hooks.signal ? { signal: hooks.signal } : {}
    const learns = !config.remote || (givesIds(config.remote) && holdsWeights(config.model))
    const embedded = async (): Promise<Serving> => {
      const engine = await startServing({ model: config.model, engine: config.engine, ...giveUp })
      return { engine, line: engine.capabilities().fingerprint, model: null, adapterFault: null }
    }
    const [base, serving, learner, postgres] = await allOrNone([
      learns ? openModel(config.model) : Promise.resolve(null),
      (config.remote ? openRemote(config.remote, { say: hooks.say, ...giveUp }) : embedded()).then((started): Serving => keep(started, ({ engine }) => engine.close())),
      learns ? startLearning({ model: config.model, engine: config.learnEngine ?? config.engine, ...giveUp }).then((engine) => keep<LearningEngine>(engine, (e) => e.close())) : Promise.resolve(null),
      config.database === false ? Promise.resolve(null) : database(config, hooks).then((p) => (p ? keep<Postgres>(p, (it) => it.stop()) : null)),
    ])
    // What serves has a context and defaults of its own; whatever is recorded of the base is of the weights.
    const { contextLength, defaults } = serving.model ?? base!
    const model = base ? { ...base, contextLength, defaults } : serving.model!
    if (!learns) hooks.say(`Turns are captured only: ${config.remote && givesIds(config.remote) ? `${config.model} holds no weights to learn with` : 'this engine gives no token ids'}.`)
    else if (serving.adapterFault !== null) hooks.say(`New versions are learned, but not served: ${serving.adapterFault}.`)
    const projections = postgres ? keep<Projections>(startProjections({ log, snapshots, connection: postgres.owner, say: hooks.say }), (p) => p.stop()) : null
    // The read model is a cache of the log: whatever happens to it, the agent is served.
    if (projections) watchProjections(metrics, log, projections, now)
    projections?.done.catch((error: unknown) => {
      if (error instanceof InstarError && error.code === 'database_newer') hooks.say(`PostgreSQL is no longer filled: ${error.message}`)
      else hooks.onFatal(error as Error)
    })
    const over = new AbortController()
    const learning = learner && learnersOf({ log, snapshots, metrics, learner, model, over: over.signal, config, hooks, keep })
    const scorer = keep<Scorer>(createScorer({ log, snapshots, metrics, now, say: hooks.say, onFatal: hooks.onFatal }, scorerConfig.parse(config.scorer)), (s) => s.stop())
    keep(over, async (o) => o.abort())
    const gateway = keep<Gateway>(createGateway({ log, snapshots, metrics, engine: serving.engine, model, now, random: randomBytes, ...learning?.ports, onFatal: hooks.onFatal }, gatewayConfig({ adminTokenFile: adminTokenIn(config.data), ...config.gateway, ...(learning ? {} : { learning: false }) })), (g) => g.stop())
    await Promise.all([scorer.start(), learning?.trainer.start(), learning?.publisher.start()])
    const { url } = await gateway.start()
    return {
      url, model, log, trainer: learning?.trainer ?? null, publisher: learning?.publisher ?? null, stop,
      serving: serving.line, learning: learner && lineOf(learner.fingerprint()),
      psql: postgres?.psql ?? null,
      settled: () => settled(scorer, learning?.trainer ?? null, over.signal),
    }
  } catch (error) {
    await stop()
    throw error
  }
}

type Learners = { log: EventLog; snapshots: SnapshotStore; metrics: Metrics; learner: LearningEngine; model: Model; over: AbortSignal; config: PipelineConfig; hooks: PipelineHooks; keep: <T>(part: T, end: (part: T) => Promise<unknown>) => T }

/** Trainer and publisher, and what the gateway asks of them. */
const learnersOf = ({ log, snapshots, metrics, learner, model, over, config, hooks, keep }: Learners): { trainer: Trainer; publisher: Publisher; ports: Pick<GatewayPorts, 'promote' | 'replay'> } => {
  const trainer = keep<Trainer>(createTrainer({ log, snapshots, metrics, learner, model, now, onFatal: hooks.onFatal, ...(hooks.onTraining ? { onProgress: hooks.onTraining } : {}) }, trainerConfig.parse(config.trainer)), (t) => t.stop())
  const publisher = keep<Publisher>(createPublisher({ log, snapshots, metrics, learner, model, probes: probesOf(config.model), now, onFatal: hooks.onFatal, ...(hooks.onVerdict ? { onProgress: hooks.onVerdict } : {}) }, publisherConfig.parse(config.publisher)), (p) => p.stop())
  const replay = (fields: Readonly<Record<string, unknown>>, gone: AbortSignal): AsyncIterable<unknown> =>
    runReplay({ log, learner, model, policy: trainer.state.policy, turns: trainer.state.turns, scorer: config.scorer }, replayOptionsOf(fields), AbortSignal.any([over, gone]))
  return { trainer, publisher, ports: { replay, promote: (branch) => publisher.promote(`${publisher.state.policy}~${branch}`) } }
}

const lineOf = ({ engine, build, isa, threads }: Fingerprint): string => `${engine} ${build} (${isa}, ${threads} thread${threads === 1 ? '' : 's'})`

/** Null, and said, where PostgreSQL cannot be had: everything but SQL works without it. */
const database = async (config: PipelineConfig, hooks: PipelineHooks): Promise<Postgres | null> => {
  try {
    return await startPostgres({
      folder: join(config.data, 'postgres'), say: hooks.say,
      ...(typeof config.database === 'string' ? { url: config.database, readerPassword: config.databaseReaderPassword ?? null } : {}), ...(config.postgresPrograms ? { bin: config.postgresPrograms } : {}),
    })
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    hooks.say(`No PostgreSQL, so no SQL: ${error.message} ${ERRORS[error.code].todo}`)
    return null
  }
}

/** Waits for all, so that what did start is known and can be stopped when another did not. */
const allOrNone = async <T extends readonly unknown[]>(starting: { readonly [K in keyof T]: Promise<T[K]> }): Promise<T> => {
  const outcomes = await Promise.allSettled(starting)
  const fault = outcomes.find((outcome) => outcome.status === 'rejected')
  if (fault) throw fault.reason
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<unknown>).value) as unknown as T
}

/** From the services' own view of the log: every joined turn scored, no batch in the making, none unsettled. */
const settled = async (scorer: Scorer, trainer: Trainer | null, over: AbortSignal): Promise<void> => {
  for (;;) {
    const scored = await scorer.settled()
    const still = trainer ? await trainer.settled() : true
    if (over.aborted) throw new InstarError('stopping', 'The pipeline has stopped.')
    if (still && scored && (!trainer || weightLine(trainer.state.weights, trainer.state.policy).started)) return
    await new Promise((resolve) => {
      setTimeout(resolve, SETTLE_POLL_MS)
    })
  }
}
