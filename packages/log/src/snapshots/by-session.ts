/** A table by turn: the first turns of a session in one row, since they are used together, and each further one in its own. */
import { sessionOfTurn, type Table } from '@instar/events'
import type { TableOptions } from './tables.ts'

/** Of a table by turn. `pack` returns no null. `json`: whether JSON represents all packed values exactly. */
export type TurnTableOptions<V> = {
  pack?: (value: V) => unknown
  unpack?: (packed: unknown, turn: string) => V
  json?: boolean
}

/** The first turns of a session. Undefined: deleted after the row was full, since others have their own row by then. */
export type Row<V> = Map<string, V | undefined>

/** `rowTurns`: turns in the row of a session, so that no row grows with the session. */
export const bySession = <V>(
  first: Table<string, Row<V>>,
  further: Table<string, V>,
  rowTurns: number,
): Table<string, V> => {
  const get = (turn: string): V | undefined => {
    const row = first.get(sessionOfTurn(turn))
    return row?.get(turn) ?? (row && row.size >= rowTurns ? further.get(turn) : undefined)
  }
  return {
    get,
    has: (turn) => get(turn) !== undefined,
    set(turn, value) {
      const session = sessionOfTurn(turn)
      const row = first.get(session) ?? new Map<string, V>()
      if (row.size < rowTurns || row.has(turn)) first.set(session, row.set(turn, value))
      else further.set(turn, value)
    },
    delete(turn) {
      const session = sessionOfTurn(turn)
      const row = first.get(session)
      if (!row?.has(turn)) return further.delete(turn)
      if (row.size < rowTurns) row.delete(turn)
      else row.set(turn, undefined)
      first.set(session, row)
    },
  }
}

/** A row as the ends of its turns' ids with their values. */
export const rowOptions = <V>({ pack, unpack, json = false }: TurnTableOptions<V>): TableOptions<Row<V>> => ({
  pack: (row) =>
    [...row].map(([turn, value]) => [
      turn.slice(turn.lastIndexOf('.')),
      value === undefined ? null : pack ? pack(value) : value,
    ]),
  unpack(packed, session) {
    const read = (value: unknown, turn: string): V => (unpack ? unpack(value, turn) : (value as V))
    return new Map(
      (packed as [string, unknown][]).map(([end, value]) => [
        session + end,
        value === null ? undefined : read(value, session + end),
      ]),
    )
  },
  json: () => json,
  weightOf: ({ size }) => size,
})
