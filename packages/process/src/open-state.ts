/** The stored state of a service at its start, and the topics that it still folds. */
import type { Topic } from '@instar/events'
import { cutBefore, type EventLog, type Offsets, type Snapshot } from '@instar/log'

type Opened = { from: Offsets; followed: readonly Topic[] }

/**
 * Where to go on in the log, and the topics to follow. `opened`: as in DeciderOptions, with the state bound. A state that must
 * start over goes on as it is where one of the topics was cut, since it could not read that again; `say` gets a line that says so.
 */
export const openState = async (
  log: EventLog,
  snapshot: Snapshot | undefined,
  topics: readonly Topic[],
  opened: (left: readonly Topic[]) => string | null,
  say: (line: string) => void,
): Promise<Opened> => {
  const from = (await snapshot?.open(log, topics)) ?? {}
  const left = snapshot?.left.list() ?? []
  const problem = opened(left)
  const followed = topics.filter((topic) => !left.includes(topic))
  if (problem === null || !snapshot) return { from, followed }
  if ((await cutBefore(log, topics, () => 0)) !== null) {
    say(`it goes on without ${left.join(', ')} (${problem}): the log was cut and cannot be read from its start`)
    return { from, followed }
  }
  const again = await snapshot.startAgain(problem, log, topics)
  opened([])
  return { from: again, followed: topics }
}
