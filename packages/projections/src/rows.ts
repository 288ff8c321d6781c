/** Rows to write, by table, and the changes to rows of `turns` that later records cause. */
import { TABLES, type RowOf, type TableName } from './schema.ts'

/** A change of a turn's next state from `open`; the first one is final. */
type NextState = { turn_id: string; next_state: 'turn' | 'none'; next_turn_id: string | null }

export type ProjectedRows = { [T in TableName]: RowOf<T>[] } & { next_states: NextState[] }

export const noRows = (): ProjectedRows => ({
  ...(Object.fromEntries(Object.keys(TABLES).map((name) => [name, []])) as unknown as { [T in TableName]: RowOf<T>[] }),
  next_states: [],
})

/** Estimates the memory of collected rows. */
export class RowBytes {
  readonly #measured = new Map<string, number>()
  bytes = 0

  /** Adds the rows that were added since the last call. */
  measure(rows: ProjectedRows): void {
    for (const [name, list] of Object.entries(rows)) {
      for (let i = this.#measured.get(name) ?? 0; i < list.length; i++) this.bytes += bytesOf(list[i]!)
      this.#measured.set(name, list.length)
    }
  }
}

/** Of a column: its name in JSON and a number. */
const COLUMN_BYTES = 32

const bytesOf = (row: object): number =>
  Object.values(row).reduce((sum: number, value: unknown) => {
    if (typeof value === 'string') return sum + COLUMN_BYTES + value.length
    return sum + (typeof value === 'object' && value !== null ? JSON.stringify(value).length : COLUMN_BYTES)
  }, 0)

/** The first and the last millisecond of the years 1 to 9999, which PostgreSQL reads as `timestampOf` writes them. */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

const TIMES: readonly string[] = ['at', 'firstTokenAt', 'finishedAt', 'startedAt']

/** Whether the record's times, where it has them, can be columns. */
export const hasValidTimes = (event: object): boolean =>
  Object.entries(event).every(([name, at]) => !TIMES.includes(name) || (Number(at) >= FIRST && Number(at) <= LAST))

/** A time in milliseconds since the epoch as a timestamp for PostgreSQL. */
export const timestampOf = (at: number): string => new Date(at).toISOString()
