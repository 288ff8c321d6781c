/** Runs scorer, trainer, publisher and projections on one log. */
import { InstarError, weightLine, type Asked } from '@instar/events'
import { openSnapshots, type EventLog } from '@instar/log'
import type { LearningEngine } from '@instar/engine/port'
import { estimatedParameters, holdsWeights, parameterCount, readPeftFolder } from '@instar/policy'
import { startCheckpoints, watchOtherBuilds, type Metrics } from '@instar/process'
import { startProjections, watchProjections, type DatabaseConnection } from '@instar/projections'
import { createPublisher, probesOf, publisherConfig, type Publisher, type PublisherPorts } from '@instar/publisher'
import { createScorer, judgeText, openJudge, scorerConfig, type GatewayAddress, type Scorer } from '@instar/scorer'
import {
  createTrainer,
  progressText,
  trainerConfig,
  trainingServer,
  type Trainer,
  type TrainerPorts,
} from '@instar/trainer'
import { join } from 'node:path'
import { parseReplayStart } from '../audit-start.ts'
import { parseReplayOptions, runReplay } from '../replay.ts'
import { CHECKPOINTED } from '../stored-folds.ts'
import { requireLearner, startLearner, type Learning } from './learning.ts'
import type { LineState, ReplayFields, StartOptions, ThreadData } from './protocol.ts'

export type ServicesPorts = {
  log: EventLog
  metrics: Metrics
  onFatal: (error: Error) => void
  logLine: (line: string) => void
  onTraining: NonNullable<TrainerPorts['onProgress']>
  onVerdict: NonNullable<PublisherPorts['onProgress']>
}
export type Services = {
  /** Resolves when every joined turn is scored, and every batch has its update and its verdict. */
  settled(): Promise<void>
  /** Null where nothing is learned. */
  line(): LineState | null
  /** The gateway listens: until then the base weights cannot judge. */
  gatewayAt(address: GatewayAddress): void
  /** Throws `not_available` where nothing is learned. */
  promote(branch: string, asked: Asked): Promise<unknown>
  /** Throws `not_available` where nothing is learned, `bad_request`. */
  replay(fields: ReplayFields, signal: AbortSignal): AsyncIterable<unknown>
  stop(): Promise<void>
}

type Learners = Learning & { trainer: Trainer; publisher: Publisher }

const now = (): number => Date.now()
const SETTLED_POLL_MS = 15

/**
 * Resolves when all services have read the log to its end. If `signal` is aborted before, stops them and rejects with
 * `aborted`.
 */
export const startServices = async (
  ports: ServicesPorts,
  { config }: ThreadData,
  learning: Learning | null,
  options: StartOptions,
  signal: AbortSignal,
): Promise<Services> => {
  const { log, metrics, logLine, onFatal } = ports
  const { data, checkpoints, checkpointing } = config
  const snapshots = openSnapshots(join(data, 'snapshots'), { logLine, ...(checkpoints ? { checkpoints } : {}) })
  watchOtherBuilds(metrics, snapshots)
  const stopped = new AbortController()
  const stops: (() => Promise<void>)[] = []
  const stop = async (): Promise<void> => {
    stopped.abort()
    const errors: unknown[] = []
    for (const stopPart of stops.splice(0).reverse()) await stopPart().catch((error: unknown) => errors.push(error))
    if (errors.length > 0) throw errors[0]
  }
  const shared = { log, snapshots, metrics, now, onFatal }
  const abortStart = (): void => void stop().catch(() => undefined)
  signal.addEventListener('abort', abortStart)
  try {
    signal.throwIfAborted()
    if (options.database) stops.push(startDatabase(ports, options.database, snapshots))
    const learners =
      learning &&
      createLearners(
        shared,
        config,
        { ...learning, model: { ...learning.model, ...options.model } },
        ports,
        stopped.signal,
      )
    if (learners)
      stops.push(
        () => learners.trainer.stop(),
        () => stopPublisher(learners),
      )
    const listening = Promise.withResolvers<GatewayAddress>()
    const gateway = (): Promise<GatewayAddress> => listening.promise
    const judge = await openJudgeOf(log, config, { now, logLine, gateway }, stopped.signal)
    const scorer = createScorer({ ...shared, logLine, gateway }, judge.config)
    stops.push(() => scorer.stop())
    if (judge.config.judges?.[0] === 'self') logLine(`The scorer is ${judgeText(judge.config)}.`)
    await Promise.all([scorer.start(), learners?.trainer.start(), learners?.publisher.start()])
    signal.throwIfAborted()
    if (checkpoints && checkpointing) {
      const { policy } = scorerConfig.parse(config.scorer)
      const settings = { checkpoints, checkpointing }
      const written = startCheckpoints(
        { log, metrics, now, logLine },
        { folds: CHECKPOINTED, policy, settings, who: 'up', owns: () => scorer.assigned(0) },
      )
      stops.push(() => written.stop())
    }
    // The base's answers to the probes of the gate would slow the measurement down.
    void lineStarted(learners, stopped.signal).then(() => judge.started(scorer))
    return {
      stop,
      settled: () => settled(scorer, learners?.trainer ?? null, stopped.signal),
      gatewayAt: listening.resolve,
      line: () => (learners ? lineState(learners.publisher) : null),
      async promote(branch, asked) {
        const { publisher } = requireLearners(learners)
        return publisher.promote(`${publisher.state.policy}~${branch}`, asked)
      },
      replay(fields, replaySignal) {
        const { trainer, learner, model } = requireLearners(learners)
        const run = {
          log,
          model,
          policy: trainer.state.policy,
          turns: trainer.state.turns,
          scorer: config.scorer,
          gateway,
          start: parseReplayStart(fields, checkpoints),
        }
        const aborted = AbortSignal.any([stopped.signal, replaySignal])
        const asked = parseReplayOptions(fields)
        if (learner) return runReplay({ ...run, learner }, asked, aborted)
        return replayOn(
          () => startLearner(config, aborted),
          (own) => runReplay({ ...run, learner: own }, asked, aborted),
        )
      },
    }
  } catch (error) {
    await stop()
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', abortStart)
  }
}

/** A pipeline whose settings are not recorded measures no judge. */
const openJudgeOf = (
  log: EventLog,
  { scorer, model, values }: ThreadData['config'],
  ports: { now: () => number; logLine: (line: string) => void; gateway: () => Promise<GatewayAddress> },
  signal: AbortSignal,
): ReturnType<typeof openJudge> => {
  const config = scorerConfig.parse(scorer)
  if (!values) return Promise.resolve({ config, started: () => undefined })
  const parameters = holdsWeights(model) ? parameterCount(model) : estimatedParameters(model)
  return openJudge(log, { config, ports, signal, values, who: 'up', parameters })
}

/**
 * How long a record waits for others to share its transaction. PostgreSQL is here for pages and SQL alone, which may be a tenth
 * of a second late: at 50 turns/s five share one, for half of its CPU.
 */
const LINGER_MS = 100

/**
 * Starts the projections; returns what stops them. The database is a cache of the log: one of a newer build ends the
 * projections, not the pipeline.
 */
const startDatabase = (
  { log, metrics, logLine, onFatal }: ServicesPorts,
  connection: DatabaseConnection,
  snapshots: ReturnType<typeof openSnapshots>,
): (() => Promise<void>) => {
  const projections = startProjections({ log, snapshots, connection, logLine, linger: LINGER_MS })
  watchProjections(metrics, log, projections, now)
  projections.done.catch((error: unknown) => {
    if (error instanceof InstarError && error.code === 'database_newer')
      logLine(`The projections have ended, PostgreSQL is no longer updated: ${error.message}`)
    else onFatal(error as Error)
  })
  return () => projections.stop()
}

type SharedPorts = Pick<TrainerPorts, 'log' | 'snapshots' | 'now' | 'onFatal'> & { metrics: Metrics }

const createLearners = (
  shared: SharedPorts,
  config: ThreadData['config'],
  learning: Learning,
  { logLine, onTraining, onVerdict }: ServicesPorts,
  signal: AbortSignal,
): Learners => {
  const gate = publisherConfig.parse(config.publisher)
  const training = trainerConfig.parse(config.trainer)
  const folder = config.baseAdapter ?? null
  const server = trainingServer(training, folder)
  const base = learning.model.sha256
  return {
    ...learning,
    trainer: createTrainer(
      {
        ...shared,
        model: learning.model,
        ...(server ? { server } : { learner: requireLearner(learning) }),
        ahead: learning.gate.evaluator !== learning.learner,
        lossesFolder: config.data,
        onProgress: onTraining,
        onWait: ({ number, reason }) => logLine(`batch ${number} waits: ${reason}`),
        onUpdate: (progress) => logLine(progressText(progress)),
      },
      training,
    ),
    publisher: createPublisher(
      {
        ...shared,
        model: learning.model,
        evaluator: learning.gate.evaluator,
        ...(learning.gate.trained ? { trained: learning.gate.trained } : {}),
        baseAdapter: folder === null ? null : readPeftFolder(folder, { model: config.model, base }),
        probes: probesOf(config.model, gate, signal),
        logLine,
        onProgress: onVerdict,
      },
      gate,
    ),
  }
}

/** A measurement that waits for servers ends with the gate; the publisher, which is told first, then decides nothing. */
const stopPublisher = async ({ publisher, gate }: Learners): Promise<void> => {
  await Promise.all([publisher.stop(), gate.close()])
}

/** A replay computes with the embedded engine, which is started for it. */
const replayOn = async function* (
  start: () => Promise<LearningEngine>,
  replay: (learner: LearningEngine) => AsyncIterable<unknown>,
): AsyncGenerator<unknown> {
  const learner = await start()
  try {
    yield* replay(learner)
  } finally {
    await learner.close()
  }
}

const requireLearners = (learners: Learners | null): Learners => {
  if (!learners)
    throw new InstarError('not_available', 'This process has no trainer and no publisher: turns are captured only.')
  return learners
}

const lineState = ({ state }: Publisher): LineState => {
  const { started, head, frozen } = weightLine(state.weights, state.policy)
  return { started: started !== null, head, frozen }
}

/** Resolves when the first record of the version line is there, or `signal` is aborted; at once where nothing is learned. */
const lineStarted = async (learners: Learners | null, signal: AbortSignal): Promise<void> => {
  while (learners && !signal.aborted && !lineState(learners.publisher).started)
    await new Promise((resolve) => {
      setTimeout(resolve, SETTLED_POLL_MS)
    })
}

/** Polls the services' own states. Rejects with `stopping` when they are stopped. */
const settled = async (scorer: Scorer, trainer: Trainer | null, stopped: AbortSignal): Promise<void> => {
  for (;;) {
    const scorerSettled = await scorer.settled()
    const trainerSettled = trainer ? await trainer.settled() : true
    if (stopped.aborted) throw new InstarError('stopping', 'The pipeline has stopped.')
    const lineStarted = !trainer || weightLine(trainer.state.weights, trainer.state.policy).started !== null
    if (trainerSettled && scorerSettled && lineStarted) return
    await new Promise((resolve) => {
      setTimeout(resolve, SETTLED_POLL_MS)
    })
  }
}
