/** The stored state of a service at its start, and the topics that it still folds. */
import type { Topic } from '@instar/events'
import { cutBefore, type EventLog, type Offsets, type Snapshot } from '@instar/log'

type Opened = { from: Offsets; followed: readonly Topic[] }

/**
 * Where to go on in the log, and the topics to follow. `opened`: as in DeciderOptions, with the state bound. A state that must
 * start over goes on as it is where a topic that it left was cut, since it could not read that again.
 */
export const openState = async (
  log: EventLog,
  snapshot: Snapshot | undefined,
  topics: readonly Topic[],
  opened: (left: readonly Topic[]) => string | null,
): Promise<Opened> => {
  const from = (await snapshot?.open(log, topics)) ?? {}
  const left = snapshot?.left.list() ?? []
  const problem = opened(left)
  const followed = topics.filter((topic) => !left.includes(topic))
  const isCut = problem !== null && (await cutBefore(log, left, () => 0)) !== null
  if (problem === null || !snapshot || isCut) return { from, followed }
  const again = await snapshot.startAgain(problem, log, topics)
  opened([])
  return { from: again, followed: topics }
}
