/**
 * The one place that starts services in-process: the gateway in this thread, scorer, trainer, publisher and projections in
 * another, on the embedded log and the embedded PostgreSQL unless the environment names others.
 */
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { ERRORS, InstarError } from '@instar/events'
import { createGateway, gatewayConfig, type Gateway, type GatewayPorts } from '@instar/gateway'
import { givesIds, openRemote } from '@instar/gateway/open-remote'
import { randomBytes } from '@instar/gateway/random'
import { announceUpgrade, openSnapshots, type EmbeddedLog, type EventLog } from '@instar/log'
import type { Model, ServingEngine } from '@instar/engine/port'
import { holdsWeights, openModel, startServing } from '@instar/policy'
import { adminTokenIn, createMetrics, measuredLog, openLog, readSettings, serviceLog } from '@instar/process'
import { startPostgres, type Postgres } from '@instar/projections'
import type { PublisherPorts } from '@instar/publisher'
import type { TrainerPorts } from '@instar/trainer'
import type { PipelineConfig } from './pipeline-config.ts'
import type { LineState, ThreadData } from './services-thread/protocol.ts'
import { startThread, type ServicesThread } from './services-thread/thread.ts'

type PipelineHooks = {
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
  /** Where the policy's line stands; null where nothing is learned. */
  line(): Promise<LineState | null>
  /** Resolves when everything said so far is scored, learned from and settled. */
  settled(): Promise<void>
  stop(): Promise<void>
}

const startServicesThread = (
  config: PipelineConfig,
  settings: ThreadData['log'],
  log: EventLog,
  learns: boolean,
  hooks: PipelineHooks,
): ServicesThread => {
  const { data, model, engine, learnEngine, scorer, trainer, publisher } = config
  const joined = 'join' in log ? new MessageChannel() : null
  if (joined) (log as EmbeddedLog).join(joined.port1)
  const plain = { data, model, engine, scorer, trainer, publisher, ...(learnEngine ? { learnEngine } : {}) }
  return startThread({ config: plain, log: settings, port: joined?.port2 ?? null, learns }, hooks)
}

/** A step of the services' start; rejects with `aborted` when somebody asks to stop before it is done. */
const unlessAborted = async <T>(
  signal: AbortSignal | undefined,
  services: ServicesThread,
  step: Promise<T>,
): Promise<T> => {
  const giveUp = (): void => void services.stop().catch(() => undefined)
  if (signal?.aborted) giveUp()
  signal?.addEventListener('abort', giveUp)
  try {
    return await step
  } catch (error) {
    if (signal?.aborted) throw new InstarError('aborted', 'the start was given up', {}, { cause: error })
    throw error
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

/** `model`: where the engine's own is not that of the weights. */
type Serving = { engine: ServingEngine; line: string; model: Model | null; adapterFault: string | null }

const EMBEDDED = readSettings({}, '.')
const now = (): number => Date.now()

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
    const { log: named, partitions, registry, registryUser, kafka } = config.log ?? EMBEDDED
    const settings = { log: named, partitions, registry, registryUser, kafka }
    const opened = keep(await openLog({ ...settings, data: config.data }, { name: 'instar', say: hooks.say }), (l) =>
      l.close(),
    )
    const log = measuredLog(opened, metrics)
    // Nobody else writes here while this process holds the folder; the record tells whoever gets a copy of the log.
    if (log.sole) await announceUpgrade(log, 'up', now(), hooks.signal ?? new AbortController().signal)
    const snapshots = openSnapshots(join(config.data, 'snapshots'), { say: hooks.say })
    const giveUp = hooks.signal ? { signal: hooks.signal } : {}
    const learns = !config.remote || (givesIds(config.remote) && holdsWeights(config.model))
    const embedded = async (): Promise<Serving> => {
      const engine = await startServing({ model: config.model, engine: config.engine, ...giveUp })
      return { engine, line: engine.capabilities().fingerprint, model: null, adapterFault: null }
    }
    const services = startServicesThread(config, settings, opened, learns, hooks)
    const [base, serving, learning, postgres] = await allOrNone([
      learns ? openModel(config.model) : Promise.resolve(null),
      (config.remote ? openRemote(config.remote, { say: hooks.say, ...giveUp }) : embedded()).then((started): Serving =>
        keep(started, ({ engine }) => engine.close()),
      ),
      unlessAborted(hooks.signal, services, services.loaded),
      config.database === false
        ? Promise.resolve(null)
        : database(config, hooks).then((p) => (p ? keep<Postgres>(p, (it) => it.stop()) : null)),
    ]).finally(() => keep(services, (thread) => thread.stop()))
    // What serves has a context and defaults of its own; whatever is recorded of the base is of the weights.
    const { contextLength, defaults } = serving.model ?? base!
    const model = base ? { ...base, contextLength, defaults } : serving.model!
    if (!learns)
      hooks.say(
        `Turns are captured only: ${config.remote && givesIds(config.remote) ? `${config.model} holds no weights to learn with` : 'this engine gives no token ids'}.`,
      )
    else if (serving.adapterFault !== null)
      hooks.say(`New versions are learned, but not served: ${serving.adapterFault}.`)
    metrics.join(() => services.metrics())
    const ports: GatewayPorts = {
      log: serviceLog(log, 'gateway'),
      snapshots,
      metrics,
      engine: serving.engine,
      model,
      now,
      random: randomBytes,
      onFatal: hooks.onFatal,
      ...(learns
        ? {
            promote: (branch: string) => services.promote(branch),
            replay: (fields, gone) => services.replay(fields, gone),
          }
        : {}),
    }
    const gateway = keep<Gateway>(
      createGateway(
        ports,
        gatewayConfig({
          adminTokenFile: adminTokenIn(config.data),
          ...config.gateway,
          ...(learns ? {} : { learning: false }),
        }),
      ),
      (g) => g.stop(),
    )
    const begin = { model: { contextLength, defaults }, database: postgres?.owner ?? null }
    await unlessAborted(hooks.signal, services, services.begin(begin))
    const { url } = await gateway.start()
    return {
      url,
      model,
      log,
      stop,
      serving: serving.line,
      learning,
      psql: postgres?.psql ?? null,
      line: () => services.line(),
      settled: () => services.settled(),
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Null, and said, where PostgreSQL cannot be had: everything but SQL works without it. */
const database = async (config: PipelineConfig, hooks: PipelineHooks): Promise<Postgres | null> => {
  try {
    return await startPostgres({
      folder: join(config.data, 'postgres'),
      say: hooks.say,
      ...(typeof config.database === 'string'
        ? { url: config.database, readerPassword: config.databaseReaderPassword ?? null }
        : {}),
      ...(config.postgresPrograms ? { bin: config.postgresPrograms } : {}),
    })
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    hooks.say(`No PostgreSQL, so no SQL: ${error.message} ${ERRORS[error.code].todo}`)
    return null
  }
}

/** Waits for all, so that what did start is known and can be stopped when another did not. */
const allOrNone = async <T extends readonly unknown[]>(starting: {
  readonly [K in keyof T]: Promise<T[K]>
}): Promise<T> => {
  const outcomes = await Promise.allSettled(starting)
  const fault = outcomes.find((outcome) => outcome.status === 'rejected')
  if (fault) throw fault.reason
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<unknown>).value) as unknown as T
}
