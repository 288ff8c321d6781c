/** Reads what names the turns of all sessions of a file, one row at a time. */
import type { FoldFile } from './file.ts'
import { rowKey, type SessionRow } from './session-table.ts'
import { unpackBrief, type PackedTurn, type TurnBrief } from './sessions.ts'
import { fromBytes } from './value.ts'

/** Turns of a session in a row, in their order. `first`: the place of the first of them. */
export type SessionBrief = { session: string; first: number; turns: TurnBrief[] }

const TABLE = 'sessions'

/** What changed since the last snapshot is not in it. Throws `snapshot_damaged`. */
export const sessionBriefs = function* (file: FoldFile): Generator<SessionBrief> {
  for (let after = '', page = file.entries(TABLE, after); page.length > 0; page = file.entries(TABLE, after))
    for (const [session, bytes] of page) {
      after = session
      const [, count, turns] = fromBytes(bytes) as SessionRow
      yield brief(session, 0, turns)
      for (let [row, first] = [1, turns.length]; first < count; row += 1) {
        const further = file.get(`${TABLE} turns`, rowKey(session, row))
        if (!further) throw file.damaged(`turns of session ${session} are missing`)
        const some = fromBytes(further) as PackedTurn[]
        yield brief(session, first, some)
        first += some.length
      }
    }
}

const brief = (session: string, first: number, turns: readonly PackedTurn[]): SessionBrief => ({
  session,
  first,
  turns: turns.map((turn) => unpackBrief(turn, session)),
})
