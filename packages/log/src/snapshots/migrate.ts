/** Runs migrations of a stored state. */
import { addTurn, sessionOfTurn, type ScoreState, type SessionState } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { FoldFile } from './file.ts'
import { rowKey, type SessionRow } from './session-table.ts'
import { unpackFields, unpackScore, unpackTurn, type PackedScore, type PackedTurn } from './sessions.ts'
import { fromBytes } from './value.ts'
import type { Migration } from './version.ts'

/** The state has no records of the topic any more: its positions go, and a later state that folds it reads it from its start. */
export const withoutTopic = (file: FoldFile, topic: Topic): void => {
  const reached = JSON.parse(file.meta('reached') ?? '[]') as [Topic, unknown][]
  file.setMeta('reached', JSON.stringify(reached.filter(([one]) => one !== topic)))
  const { [topic]: _, ...counts } = JSON.parse(file.meta('partitions') ?? '{}') as Partial<Record<Topic, number>>
  file.setMeta('partitions', JSON.stringify(counts))
}

/** The tables of `storedTurns`. */
export const clearTurns = (file: FoldFile): void => {
  for (const table of ['sessions', 'sessions turns']) file.clear(table)
}

/** The sessions of `storedTurns` that are closed, or those that are not, each whole, one at a time. */
export const sessionsOf = function* (
  file: FoldFile,
  { closed }: Pick<SessionState, 'closed'>,
): Generator<SessionState> {
  for (let after = '', page = file.entries('sessions', after); page.length > 0; page = file.entries('sessions', after))
    for (const [key, bytes] of page) {
      after = key
      const [fields, count, first] = fromBytes(bytes) as SessionRow
      const session = unpackFields(fields, key)
      if (session.closed !== closed) continue
      for (let [row, turns] = [1, first]; ; row += 1) {
        for (const turn of turns) addTurn(session, unpackTurn(turn, session))
        if (session.turns.length >= count) break
        const further = file.get('sessions turns', rowKey(key, row))
        if (!further) throw new Error(`turns of session ${key} are missing`)
        turns = fromBytes(further) as PackedTurn[]
      }
      yield session
    }
}

/** The score of a turn in the tables of `storedScores`; undefined: it has none. */
export const scoreIn = (file: FoldFile, policy: string, turn: string): ScoreState | undefined => {
  const table = `scores ${policy}`
  const row = file.get(table, sessionOfTurn(turn))
  if (!row) return undefined
  const end = turn.slice(turn.lastIndexOf('.'))
  const own = (fromBytes(row) as [string, PackedScore | null][]).find(([one]) => one === end)?.[1]
  const further = own ? undefined : file.get(`further ${table}`, turn)
  const packed = own ?? (further && (fromBytes(further) as PackedScore))
  return packed && unpackScore(packed, turn, policy)
}

/** All at once with the new version, so that a process that is killed leaves the old state or the new one. */
export const migrate = (file: FoldFile, from: string, to: string, migrations: readonly Migration[]): void => {
  file.begin()
  try {
    for (const one of migrations) one(file)
    file.setMeta('version', to)
    file.commit()
  } catch (cause) {
    file.rollback()
    throw new Error(`its state cannot be migrated from ${from} to ${to}: ${(cause as Error).message}`, { cause })
  }
}
