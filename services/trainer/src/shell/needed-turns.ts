/** The turns that batches may still read: they must stay on the log. */
import { decodeReadable, InstarError, updateLine } from '@instar/events'
import {
  createTurnReader,
  ifReadable,
  isTurnRecord,
  openFold,
  readHeld,
  type EventLog,
  type Position,
} from '@instar/log'
import { evolve, type TrainerState } from '../core/state.ts'
import { trainerFold } from './stored-fold.ts'
import { stateOfSnapshot } from './snapshot.ts'

/** `since`: records since then stay, milliseconds since 1970. `unscored`: turns that are still to be scored. */
type Options = Pick<Parameters<typeof openFold>[2], 'policy' | 'observer' | 'checkpoints'> & {
  since: number
  unscored: readonly string[]
}

/**
 * The positions of the turns that no batch has taken or dropped, of those of the last batch, of `unscored`, and of the earlier turns that their
 * bodies and prompts, and those of the turns since `since`, refer to, as of the log's end. Folds the log from the newest checkpoint
 * on, and reads the turns since `since`. Throws `no_temporary_file`, `aborted`.
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
    return await positionsOf(log, state!, options)
  } finally {
    await running.remove()
  }
}

const idsOf = function* ({ policy, pending, episodes, updates }: TrainerState): Generator<string> {
  for (const queues of [pending, episodes]) for (const name of queues.keys()) yield* queues.get(name) ?? []
  const line = updateLine(updates, policy)
  for (const { turn } of line.byId.get(line.last)?.sealed.items ?? []) yield turn
}

/**
 * The turns before `since` to which bodies and prompts of turns since then refer: a turn that stays may be scored, or be the
 * beginning of one that is captured, after the cut. `positionOf`: of a turn.
 */
const beginnings = async function* (
  log: EventLog,
  positionOf: (turn: string) => Position | undefined,
  { since, observer }: Options,
): AsyncGenerator<string> {
  for (let partition = 0; partition < log.partitions('turns'); partition += 1) {
    let first: number | undefined
    for await (const records of readHeld(log, 'turns', { partition, from: { time: since } }))
      for (const record of records) {
        if (observer.signal?.aborted) throw new InstarError('aborted', 'The command was stopped.')
        first ??= record.offset
        const event = decodeReadable(record)?.event
        if (!event || !isTurnRecord(event)) continue
        for (const { from } of [event.body, event.prompt]) {
          const place = from === null ? undefined : positionOf(from)
          // Those of this partition from `first` on are read here themselves.
          if (place && (place.partition !== partition || place.offset < first)) yield from!
        }
      }
  }
}

const positionsOf = async (log: EventLog, { turns, ...state }: TrainerState, options: Options): Promise<Position[]> => {
  const positionOf = (turn: string): Position | undefined => {
    const found = turns.turns.get(turn)
    return found && { topic: 'turns', partition: found.partition, offset: found.offset }
  }
  const reader = createTurnReader(log, positionOf)
  const positions = new Map<string, Position>()
  const add = async (id: string): Promise<void> => {
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
  for (const id of idsOf({ turns, ...state })) await add(id)
  for (const id of options.unscored) await add(id)
  for await (const id of beginnings(log, positionOf, options)) await add(id)
  return [...positions.values()]
}
