/** Checkpoints on the log. */
import { decodeReadable, type StateCheckpointed } from '@instar/events'
import type { EventLog, Position } from '../port.ts'

/** `id`: of the record. */
export type Checkpoint = { id: string; event: StateCheckpointed }

/** In the order of the log, up to its end as of the call. `name`: of one state; absent: of all. */
export const checkpointsOn = async (
  log: Pick<EventLog, 'read'>,
  name?: string,
  /** Called with each record of their topic that cannot be decoded; it may have been one. */
  onUnreadable: (position: Position) => void = () => undefined,
): Promise<Checkpoint[]> => {
  const found: Checkpoint[] = []
  for await (const records of log.read('upgrades'))
    for (const record of records) {
      const logged = decodeReadable(record)
      if (!logged) onUnreadable({ topic: record.topic, partition: record.partition, offset: record.offset })
      if (logged?.event.type !== 'StateCheckpointed') continue
      if (name === undefined || logged.event.name === name) found.push({ id: logged.id, event: logged.event })
    }
  return found
}
