/** The turns that batches may still read: they must stay on the log. */
import { updateLine } from '@instar/events'
import { createTurnReader, ifReadable, openFold, type EventLog, type Position } from '@instar/log'
import { evolve, type TrainerState } from '../core/state.ts'
import { trainerFold } from './stored-fold.ts'
import { stateOfSnapshot } from './snapshot.ts'

type Options = Pick<Parameters<typeof openFold>[2], 'policy' | 'observer' | 'checkpoints'>

/**
 * The positions of the turns that no batch has taken or dropped, of those of the last batch, and of the earlier turns that their
 * bodies and prompts refer to, as of the log's end. Folds the log from the newest checkpoint on. Throws `no_temporary_file`,
 * `aborted`.
 */
export const neededTurns = async (log: EventLog, options: Options): Promise<Position[]> => {
  let state: TrainerState
  const fold = {
    ...trainerFold,
    on: (...[snapshot, policy]: Parameters<typeof trainerFold.on>) => {
      state = stateOfSnapshot(snapshot, policy)
      return (logged: Parameters<typeof evolve>[1]) => evolve(state, logged)
    },
  }
  const running = await openFold(log, fold, options)
  try {
    await running.upTo(await log.ends(fold.topics))
    return await positionsOf(log, state!)
  } finally {
    await running.remove()
  }
}

const idsOf = function* ({ policy, pending, episodes, updates }: TrainerState): Generator<string> {
  for (const queues of [pending, episodes]) for (const name of queues.keys()) yield* queues.get(name) ?? []
  const line = updateLine(updates, policy)
  for (const { turn } of line.byId.get(line.last)?.sealed.items ?? []) yield turn
}

const positionsOf = async (log: EventLog, { turns, ...state }: TrainerState): Promise<Position[]> => {
  const positionOf = (turn: string): Position | undefined => {
    const found = turns.turns.get(turn)
    return found && { topic: 'turns', partition: found.partition, offset: found.offset }
  }
  const reader = createTurnReader(log, positionOf)
  const positions = new Map<string, Position>()
  for (const id of idsOf({ turns, ...state })) {
    const left = [id]
    for (let turn = left.pop(); turn !== undefined; turn = left.pop()) {
      const position = positionOf(turn)
      if (!position || positions.has(turn)) continue
      positions.set(turn, position)
      const named = turn
      const record = await ifReadable(() => reader.record(named))
      if (record) left.push(...[record.body.from, record.prompt.from].filter((from) => from !== null))
    }
  }
  return [...positions.values()]
}
