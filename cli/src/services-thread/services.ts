/** Scorer, trainer, publisher and projections side by side, on a log that is given. */
import { InstarError, weightLine } from '@instar/events'
import { openSnapshots, type EventLog } from '@instar/log'
import type { Fingerprint, LearningEngine, Model } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import type { Metrics } from '@instar/process'
import { startProjections, watchProjections, type DatabaseConnection } from '@instar/projections'
import { createPublisher, probesOf, publisherConfig, type Publisher, type PublisherPorts } from '@instar/publisher'
import { createScorer, scorerConfig, type Scorer } from '@instar/scorer'
import { createTrainer, trainerConfig, type Trainer, type TrainerPorts } from '@instar/trainer'
import { join } from 'node:path'
import { replayOptionsOf, runReplay } from '../replays.ts'
import type { Begin, LineState, ThreadData } from './protocol.ts'

export type ServicesPorts = {
  log: EventLog
  metrics: Metrics
  onFatal: (error: Error) => void
  say: (line: string) => void
  onTraining: NonNullable<TrainerPorts['onProgress']>
  onVerdict: NonNullable<PublisherPorts['onProgress']>
}
/** What learns: the weights are read before anything else is known. */
export type Learning = { model: Model; learner: LearningEngine }
export type Services = {
  settled(): Promise<void>
  line(): LineState | null
  promote(branch: string): Promise<unknown>
  replay(fields: Readonly<Record<string, unknown>>, gone: AbortSignal): AsyncIterable<unknown>
  stop(): Promise<void>
}

type Learners = Learning & { trainer: Trainer; publisher: Publisher }

const now = (): number => Date.now()
const SETTLE_POLL_MS = 15

export const loadLearning = async ({ config, learns }: ThreadData, signal: AbortSignal): Promise<Learning | null> => {
  if (!learns) return null
  const learner = await startLearning({ model: config.model, engine: config.learnEngine ?? config.engine, signal })
  try {
    return { learner, model: await openModel(config.model) }
  } catch (error) {
    await learner.close()
    throw error
  }
}

export const lineOf = ({ engine, build, isa, threads }: Fingerprint): string =>
  `${engine} ${build} (${isa}, ${threads} thread${threads === 1 ? '' : 's'})`

/**
 * Rejects with `aborted` when `signal` comes before all services have read the log to its end; none of them runs then.
 */
export const startServices = async (
  ports: ServicesPorts,
  { config }: ThreadData,
  learning: Learning | null,
  begin: Begin,
  signal: AbortSignal,
): Promise<Services> => {
  const { log, metrics, say, onFatal } = ports
  const snapshots = openSnapshots(join(config.data, 'snapshots'), { say })
  const over = new AbortController()
  const started: (() => Promise<void>)[] = []
  const stop = async (): Promise<void> => {
    over.abort()
    const faults: unknown[] = []
    for (const end of started.splice(0).reverse()) await end().catch((fault: unknown) => faults.push(fault))
    if (faults.length > 0) throw faults[0]
  }
  const shared = { log, snapshots, metrics, now, onFatal }
  const giveUp = (): void => void stop().catch(() => undefined)
  signal.addEventListener('abort', giveUp)
  try {
    signal.throwIfAborted()
    if (begin.database) started.push(fillDatabase(ports, begin.database, snapshots))
    const learners =
      learning && learnersOf(shared, config, { ...learning, model: { ...learning.model, ...begin.model } }, ports)
    if (learners)
      started.push(
        () => learners.trainer.stop(),
        () => learners.publisher.stop(),
      )
    const scorer = createScorer({ ...shared, say }, scorerConfig.parse(config.scorer))
    started.push(() => scorer.stop())
    await Promise.all([scorer.start(), learners?.trainer.start(), learners?.publisher.start()])
    signal.throwIfAborted()
    return {
      stop,
      settled: () => settled(scorer, learners?.trainer ?? null, over.signal),
      line: () => (learners ? stateOf(learners.publisher) : null),
      async promote(branch) {
        const { publisher } = learnersIn(learners)
        return publisher.promote(`${publisher.state.policy}~${branch}`)
      },
      replay(fields, gone) {
        const { trainer, learner, model } = learnersIn(learners)
        const run = {
          log,
          learner,
          model,
          policy: trainer.state.policy,
          turns: trainer.state.turns,
          scorer: config.scorer,
        }
        return runReplay(run, replayOptionsOf(fields), AbortSignal.any([over.signal, gone]))
      },
    }
  } catch (error) {
    await stop()
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/** The read model is a cache of the log: a database of a newer build ends the filling alone. */
const fillDatabase = (
  { log, metrics, say, onFatal }: ServicesPorts,
  connection: DatabaseConnection,
  snapshots: ReturnType<typeof openSnapshots>,
): (() => Promise<void>) => {
  const projections = startProjections({ log, snapshots, connection, say })
  watchProjections(metrics, log, projections, now)
  projections.done.catch((error: unknown) => {
    if (error instanceof InstarError && error.code === 'database_newer')
      say(`PostgreSQL is no longer filled: ${error.message}`)
    else onFatal(error as Error)
  })
  return () => projections.stop()
}

type Shared = Pick<TrainerPorts, 'log' | 'snapshots' | 'now' | 'onFatal'> & { metrics: Metrics }

const learnersOf = (
  shared: Shared,
  config: ThreadData['config'],
  learning: Learning,
  { onTraining, onVerdict }: ServicesPorts,
): Learners => ({
  ...learning,
  trainer: createTrainer({ ...shared, ...learning, onProgress: onTraining }, trainerConfig.parse(config.trainer)),
  publisher: createPublisher(
    { ...shared, ...learning, probes: probesOf(config.model), onProgress: onVerdict },
    publisherConfig.parse(config.publisher),
  ),
})

const learnersIn = (learners: Learners | null): Learners => {
  if (!learners) throw new InstarError('not_available', 'Nothing learns in this process.')
  return learners
}

const stateOf = ({ state }: Publisher): LineState => {
  const { started, head, frozen } = weightLine(state.weights, state.policy)
  return { started: started !== null, head, frozen }
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
