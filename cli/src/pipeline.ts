/**
 * Starts all services in one process: the gateway in this thread, the others in the services' thread. Uses the embedded
 * log and the embedded PostgreSQL unless the configuration names others.
 */
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { ERRORS, InstarError } from '@instar/events'
import { createGateway, gatewayConfig, type Gateway, type GatewayPorts } from '@instar/gateway'
import { givesIds, openRemote } from '@instar/gateway/open-remote'
import { randomBytes } from '@instar/gateway/random'
import { announceUpgrade, openSnapshots, type EmbeddedLog, type EventLog } from '@instar/log'
import type { Model, ServingEngine } from '@instar/engine/port'
import { createCoreShare, holdsWeights, openBase, startServing, type CoreShare } from '@instar/policy'
import {
  adminTokenIn,
  createMetrics,
  measuredLog,
  openLog,
  readSettings,
  recordSettings,
  serviceLog,
  watchOtherBuilds,
} from '@instar/process'
import { createJudges, scorerConfig } from '@instar/scorer'
import { startPostgres, type Postgres } from '@instar/projections'
import { openReadModel } from '@instar/projections/read-model'
import type { PublisherPorts } from '@instar/publisher'
import { trainerConfig, type TrainerPorts } from '@instar/trainer'
import { judgeAddress } from './judge-address.ts'
import type { PipelineConfig } from './pipeline-config.ts'
import type { LineState, ThreadData } from './services-thread/protocol.ts'
import { startThread, type ServicesThread } from './services-thread/thread.ts'

type PipelineHooks = {
  /** Aborts the start, which then rejects with `aborted`. No effect on a pipeline that runs. */
  signal?: AbortSignal
  /** A service has ended with an error. */
  onFatal: (error: Error) => void
  /** Receives the lines that the services log. */
  logLine: (line: string) => void
  onTraining?: TrainerPorts['onProgress']
  onVerdict?: PublisherPorts['onProgress']
}

export type Pipeline = {
  url: string
  model: Model
  /** Description of the serving engine. */
  serving: string
  /** Description of the learning engine; null: turns are captured only. */
  learning: string | null
  /** A shell command that opens psql; null: there is no database. */
  psql: string | null
  log: EventLog
  /** State of the policy's version line; null where nothing is learned. */
  line(): Promise<LineState | null>
  /**
   * Resolves when every turn on the log is scored, every batch has its update and its verdict, and the gateway serves
   * the version that came of them.
   */
  settled(): Promise<void>
  stop(): Promise<void>
}

const startServicesThread = (
  config: PipelineConfig,
  settings: ThreadData['log'],
  log: EventLog,
  learns: boolean,
  share: CoreShare | null,
  hooks: PipelineHooks,
): ServicesThread => {
  const { data, model, baseAdapter = null, engine, learnEngine, scorer, trainer, publisher } = config
  const channel = 'join' in log ? new MessageChannel() : null
  if (channel) (log as EmbeddedLog).join(channel.port1)
  const given = { data, model, baseAdapter, engine, scorer, trainer, publisher }
  const threadConfig = {
    ...given,
    ...(config.checkpoints ? { checkpoints: config.checkpoints } : {}),
    ...(config.checkpointing ? { checkpointing: config.checkpointing } : {}),
    ...(learnEngine ? { learnEngine } : {}),
    ...(config.remote ? { remote: config.remote } : {}),
    ...(config.values ? { values: config.values } : {}),
  }
  return startThread({ config: threadConfig, log: settings, port: channel?.port2 ?? null, learns, share }, hooks)
}

/** Stops the services when `signal` is aborted before `step` is done, and rejects with `aborted`. */
const unlessAborted = async <T>(
  signal: AbortSignal | undefined,
  services: ServicesThread,
  step: Promise<T>,
): Promise<T> => {
  const stopServices = (): void => void services.stop().catch(() => undefined)
  if (signal?.aborted) stopServices()
  signal?.addEventListener('abort', stopServices)
  try {
    return await step
  } catch (error) {
    if (signal?.aborted) throw new InstarError('aborted', 'The start was aborted.', {}, { cause: error })
    throw error
  } finally {
    signal?.removeEventListener('abort', stopServices)
  }
}

/** Before the services act on the settings. */
const recordChanges = async (
  log: EventLog,
  { scorer }: PipelineConfig,
  values: NonNullable<PipelineConfig['values']>,
  signal: AbortSignal,
): Promise<void> => {
  const config = scorerConfig.parse(scorer)
  const judges = (): string[] => createJudges(config, { now }).map(({ id }) => id)
  await recordSettings(log, { policy: config.policy, who: 'up', values, judges, now: now(), signal })
}

/** `model`: of an engine behind HTTP; null for the embedded engine, which serves `PipelineConfig.model`. */
type Serving = { engine: ServingEngine; line: string; model: Model | null; adapterFault: string | null }

const EMBEDDED = readSettings({}, '.')
const now = (): number => Date.now()

/** Whether there are token ids to learn from, and weights: here or on a training server. */
const canLearn = ({ remote, model, trainer }: PipelineConfig): boolean =>
  !remote || (givesIds(remote) && (trainerConfig.parse(trainer).server !== 'embedded' || holdsWeights(model)))

export const startPipeline = async (config: PipelineConfig, hooks: PipelineHooks): Promise<Pipeline> => {
  const stops: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    const errors: unknown[] = []
    for (const stopPart of stops.splice(0).reverse()) await stopPart().catch((error: unknown) => errors.push(error))
    if (errors.length > 0) throw errors[0]
  }
  const stopLater = <T>(part: T, stopPart: (part: T) => Promise<unknown>): T => {
    stops.push(() => stopPart(part))
    return part
  }
  try {
    const metrics = createMetrics()
    const { log: address, partitions, registry, registryUser, kafka, archive } = config.log ?? EMBEDDED
    const settings = { log: address, partitions, registry, registryUser, kafka, archive }
    const opened = stopLater(
      await openLog({ ...settings, data: config.data }, { name: 'instar', logLine: hooks.logLine }),
      (part) => part.close(),
    )
    const log = measuredLog(opened, metrics)
    // This process is the only writer of an embedded log; the record is for readers of a copy of the log.
    const signal = hooks.signal ?? new AbortController().signal
    if (log.sole) await announceUpgrade(log, 'up', now(), signal)
    if (config.values) await recordChanges(log, config, config.values, signal)
    const { checkpoints } = config
    const snapshots = openSnapshots(join(config.data, 'snapshots'), {
      logLine: hooks.logLine,
      ...(checkpoints ? { checkpoints } : {}),
    })
    watchOtherBuilds(metrics, snapshots)
    const abortable = hooks.signal ? { signal: hooks.signal } : {}
    const learns = canLearn(config)
    // A remote engine has cores of its own.
    const share = config.remote ? null : createCoreShare(trainerConfig.parse(config.trainer).learningShare)
    const startEmbedded = async (): Promise<Serving> => {
      const engine = await startServing({ model: config.model, engine: config.engine, share, ...abortable })
      return { engine, line: engine.capabilities().fingerprint, model: null, adapterFault: null }
    }
    const services = startServicesThread(config, settings, opened, learns, share, hooks)
    const [base, serving, learning, postgres] = await allOrNone([
      learns ? openBase(config.model) : Promise.resolve(null),
      (config.remote ? openRemote(config.remote, { logLine: hooks.logLine, ...abortable }) : startEmbedded()).then(
        (started): Serving => stopLater(started, ({ engine }) => engine.close()),
        (error: unknown) => {
          // The gate of the services waits for the same engine, and would wait without end.
          void services.stop().catch(() => undefined)
          throw error
        },
      ),
      unlessAborted(hooks.signal, services, services.loaded),
      config.database === false
        ? Promise.resolve(null)
        : startDatabase(config, hooks).then((started) =>
            started ? stopLater<Postgres>(started, (part) => part.stop()) : null,
          ),
    ]).finally(() => stopLater(services, (thread) => thread.stop()))
    // The context and the sampling defaults are the serving engine's; records of the base describe the weights.
    const { contextLength, defaults } = serving.model ?? base!
    const model = base ? { ...base, contextLength, defaults } : serving.model!
    if (!learns)
      hooks.logLine(
        `Turns are captured only: ${config.remote && givesIds(config.remote) ? `${config.model} holds no weights to learn with` : 'this engine gives no token ids'}.`,
      )
    else if (serving.adapterFault !== null)
      hooks.logLine(`New versions are trained, but not served: ${serving.adapterFault}.`)
    metrics.join(() => services.metrics())
    const ports: GatewayPorts = {
      log: serviceLog(log, 'gateway'),
      snapshots,
      metrics,
      data: config.data,
      engine: serving.engine,
      model,
      now,
      random: randomBytes,
      onFatal: hooks.onFatal,
      ...(postgres
        ? {
            readModel: stopLater(
              openReadModel(postgres.reader, trainerConfig.parse(config.trainer).policy, () => performance.now()),
              (part) => part.close(),
            ),
          }
        : {}),
      ...(learns
        ? {
            promote: (branch, asked) => services.promote(branch, asked),
            replay: (fields, signal) => services.replay(fields, signal),
          }
        : {}),
    }
    const gateway = stopLater<Gateway>(
      createGateway(
        ports,
        gatewayConfig({
          adminTokenFile: adminTokenIn(config.data),
          ...config.gateway,
          ...(learns ? {} : { learning: false }),
        }),
      ),
      (part) => part.stop(),
    )
    const options = { model: { contextLength, defaults }, database: postgres?.owner ?? null }
    await unlessAborted(hooks.signal, services, services.start(options))
    const { url } = await gateway.start()
    const judge = judgeAddress(config, Number(new URL(url).port))
    if (judge !== null) await services.gatewayAt(judge)
    return {
      url,
      model,
      log,
      stop,
      serving: serving.line,
      learning,
      psql: postgres?.psql ?? null,
      line: () => services.line(),
      async settled() {
        await services.settled()
        await gateway.servesHead()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Null, with the reason logged, where PostgreSQL does not start: only the SQL read model needs it. */
const startDatabase = async (config: PipelineConfig, hooks: PipelineHooks): Promise<Postgres | null> => {
  try {
    return await startPostgres({
      folder: join(config.data, 'postgres'),
      logLine: hooks.logLine,
      ...(typeof config.database === 'string'
        ? { url: config.database, readerPassword: config.databaseReaderPassword ?? null }
        : {}),
      ...(config.postgresPrograms ? { bin: config.postgresPrograms } : {}),
    })
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    hooks.logLine(
      `PostgreSQL has not started, so \`instar sql\` has no data: ${error.message} ${ERRORS[error.code].todo}`,
    )
    return null
  }
}

/** Waits for every promise before it rejects, so that each part that has started is known and can be stopped. */
const allOrNone = async <T extends readonly unknown[]>(promises: {
  readonly [K in keyof T]: Promise<T[K]>
}): Promise<T> => {
  const outcomes = await Promise.allSettled(promises)
  const failure = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failure) throw failure.reason
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<unknown>).value) as unknown as T
}
