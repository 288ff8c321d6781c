/** The prompt ids of a turn, read from its log. */
import { createTurnReader, type EventLog } from '@instar/log'
import { decodeRecord } from '@instar/events'

export const promptIdsOf = async (log: EventLog, turn: string): Promise<number[]> => {
  const places = new Map<string, { partition: number; offset: number }>()
  for await (const batch of log.read('turns')) {
    for (const record of batch) {
      const { event } = decodeRecord(record)
      if (event.type === 'TurnCaptured' || event.type === 'TurnAborted') places.set(event.turn, record)
    }
  }
  return createTurnReader(log, (name) => places.get(name)).promptIds(turn)
}
