/**
 * A scorer that a cut of the log does not end. One that is given a partition which it read last before the cut lacks what it has still
 * to read of it. It stops, and another takes its place in this process, which starts from a checkpoint as a new process does.
 */
import type { Metrics } from '@instar/process'
import { createScorer, type Scorer, type ScorerPorts } from './app.ts'
import type { ScorerConfig } from './config.ts'
import type { Judge } from './shell/judges.ts'

/**
 * As `createScorer`. A start that finds no checkpoint behind the cut ends with `onFatal`. With an archive nothing is missing, and
 * nothing starts again.
 */
export const createScorerAcrossCuts = (ports: ScorerPorts, config: ScorerConfig): Scorer => {
  let judges: readonly Judge[] | null = null
  let stopped = false
  let restarting: Promise<void> = Promise.resolve()

  const begin = (): Life => {
    const readers = ports.metrics && removableReaders(ports.metrics)
    let started: Promise<void> = Promise.resolve()
    let ended: Promise<void> | undefined
    let cut = false
    const scorer = createScorer(
      {
        ...ports,
        ...(readers ? { metrics: readers.metrics } : {}),
        onCut(error) {
          if (cut || stopped) return
          cut = true
          ports.logLine?.(`${error.message}; the scorer starts again, from a checkpoint`)
          restarting = started.then(() => again(life))
        },
      },
      config,
    )
    const life: Life = {
      scorer,
      start: () => (started = scorer.start()),
      end: () => (ended ??= scorer.stop().finally(() => readers?.remove())),
    }
    return life
  }
  let current = begin()

  const again = async ({ end }: Life): Promise<void> => {
    try {
      await end()
      if (stopped) return
      current = begin()
      if (judges) current.scorer.useJudges(judges)
      await current.start()
    } catch (error) {
      if (!stopped) ports.onFatal(error as Error)
    }
  }

  return {
    get state() {
      return current.scorer.state
    },
    work: () => current.scorer.work(),
    assigned: (partition) => current.scorer.assigned(partition),
    async settled() {
      await restarting
      return current.scorer.settled()
    },
    start: () => current.start(),
    useJudges(chosen) {
      judges = chosen
      current.scorer.useJudges(chosen)
    },
    async stop() {
      stopped = true
      await current.end()
      await restarting
    },
  }
}

type Life = { scorer: Scorer; start(): Promise<void>; end(): Promise<void> }

/** The same metrics, whose readers that were registered here can be taken away again. */
const removableReaders = (metrics: Metrics): { metrics: Metrics; remove(): void } => {
  const removals: (() => void)[] = []
  return {
    metrics: {
      ...metrics,
      read(name, read) {
        const remove = metrics.read(name, read)
        removals.push(remove)
        return remove
      },
    },
    remove: () => removals.splice(0).forEach((remove) => remove()),
  }
}
