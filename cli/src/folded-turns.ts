/** The fold of `turns` of a whole log, in a temporary file. */
import { decodeReadable, foldTurns, type Logged, type TurnsEvent, type TurnsState } from '@instar/events'
import {
  openTemporaryTables,
  storedTurns,
  type EventLog,
  type LogRecord,
  type Offsets,
  type TemporaryTables,
} from '@instar/log'

export type FoldedTurns = TemporaryTables & { turns: TurnsState }

/** `key`: of one session; null: of all. `to`: where reading ends. `onDamaged` is called for each record that cannot be decoded. */
export const readTurns = async (
  log: EventLog,
  key: string | null,
  to: Offsets,
  onDamaged: (record: LogRecord) => void = () => undefined,
): Promise<FoldedTurns> => {
  const tables = await openTemporaryTables(log)
  try {
    const turns = storedTurns(tables.snapshot)
    for await (const records of log.read('turns', { to, ...(key === null ? {} : { key }) }))
      for (const record of records) {
        const logged = decodeReadable(record)
        if (!logged) {
          onDamaged(record)
          continue
        }
        foldTurns(turns, logged as Logged<TurnsEvent>)
        const written = tables.afterFold(logged)
        if (written) await written
      }
    return { ...tables, turns }
  } catch (error) {
    await tables.close()
    throw error
  }
}
