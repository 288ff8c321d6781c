/** The newest checkpoint of a state that a process without a snapshot can start from. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { isCutAway } from '../cuts.ts'
import type { EventLog } from '../port.ts'
import { cutBefore } from '../snapshots/other-log.ts'
import { migrationsFrom } from '../snapshots/version.ts'
import { stateFault } from './files.ts'
import { stateName, type StoredFold } from './fold.ts'
import { checkpointsOn, type Checkpoint } from './on-log.ts'
import { timeOf } from './start.ts'
import { misplacedIn } from './verify.ts'

const misplaced = async (
  log: EventLog,
  event: Checkpoint['event'],
  topics: readonly Topic[],
): Promise<string | null> => {
  const nextOf = (topic: Topic, partition: number): number =>
    event.positions.find((one) => one.topic === topic && one.partition === partition)?.next ?? 0
  try {
    return (await misplacedIn(log, event)) ?? (await cutBefore(log, topics, nextOf))
  } catch (error) {
    if (isCutAway(error)) return (error as Error).message
    throw error
  }
}

/** Throws `no_checkpoint`, which says why the newest one cannot be used, and the reason of `signal`. */
export const usableCheckpoint = async (
  log: EventLog,
  fold: StoredFold,
  { policy, folder, signal }: { policy: string; folder: string; signal: AbortSignal },
): Promise<Checkpoint> => {
  const name = stateName(fold, policy)
  let why = 'there is none on the log'
  for (const checkpoint of (await checkpointsOn(log, name)).reverse()) {
    const { event } = checkpoint
    const fault =
      migrationsFrom(`v${event.version}`, fold.version) === null
        ? `its state has version ${event.version}`
        : ((await misplaced(log, event, fold.topics)) ?? (await stateFault(folder, event, signal)))
    if (fault === null) return checkpoint
    if (why.startsWith('there')) why = `the one of ${timeOf(event)}: ${fault}`
  }
  throw new InstarError(
    'no_checkpoint',
    `no checkpoint of ${name} can be used: ${why}. \`instar checkpoint ${fold.service}\` writes one`,
    { state: name },
  )
}
