/**
 * Records about the episodes of sessions that are still to be appended. Such a record is appended like a score: it is
 * needed until it is read back, and whoever is given the partition of the session appends what is missing.
 */
import {
  encodeEvent,
  isReadable,
  NEWEST,
  type EpisodeRecord,
  type Queue,
  type SessionState,
  type TurnsState,
  type Versions,
} from '@instar/events'

/** Of one record type. */
export type MissingRecords = {
  /** Sessions of which a record is none that was read, on any partition. */
  readonly sessions: Queue
  /** Those of them that `appendMissing` is to look at: it has not since something was read of them. */
  toLookAt: Set<string>
  /** Ids of records that were appended and not read back, by what they say. */
  readonly appended: Map<string, string>
}

/** `sessions`: as stored. */
export const missingRecords = (sessions: Queue = new Set()): MissingRecords => ({
  sessions,
  toLookAt: new Set(),
  appended: new Map(),
})

/** After a change of the session, or of what was read about it. */
export const setMissing = ({ sessions, toLookAt }: MissingRecords, session: string, isMissing: boolean): void => {
  for (const set of [sessions, toLookAt]) {
    if (isMissing) set.add(session)
    else set.delete(session)
  }
}

/** Of a process that ended before this one nothing is on its way. */
export const forgetAppended = ({ appended }: MissingRecords): void => appended.clear()

/** All sessions are looked at: also those that others had begun, or a process before this one. */
export const lookAtMissing = ({ sessions, toLookAt }: MissingRecords): void => {
  for (const session of sessions) toLookAt.add(session)
}

/** Looks at a session again, if a record of it is missing. */
export const lookAtOne = ({ sessions, toLookAt }: MissingRecords, session: string): void => {
  if (sessions.has(session)) toLookAt.add(session)
}

/** Whether `appendMissing` has something to look at. Nothing is appended before all readers support the record. */
export const hasMissing = (
  { toLookAt }: MissingRecords,
  type: EpisodeRecord['type'],
  versions: Versions = NEWEST,
): boolean => toLookAt.size > 0 && isReadable(versions, type)

/** Whether nothing that may be written is missing. */
export const isComplete = (
  { sessions }: MissingRecords,
  type: EpisodeRecord['type'],
  versions: Versions = NEWEST,
): boolean => sessions.size === 0 || !isReadable(versions, type)

/** A record that says the same was read. */
export const readBack = ({ appended }: MissingRecords, name: string, id: string): void => {
  if (appended.get(name) === id) appended.delete(name)
}

/** Where a walk has come to: a new one would pass over the places of all that was removed. */
const walks = new WeakMap<Set<string>, Iterator<string, undefined>>()

/** Removes the first one. */
const next = (toLookAt: Set<string>): string | undefined => {
  const walk = walks.get(toLookAt) ?? toLookAt.values()
  const { value } = walk.next()
  if (value === undefined) walks.delete(toLookAt)
  else walks.set(toLookAt, walk)
  if (value !== undefined) toLookAt.delete(value)
  return value
}

/** Their records: `of` gives those of a session that are missing, without their time; `nameOf` what one says. */
export type RecordKind<E extends EpisodeRecord> = {
  type: E['type']
  of(session: SessionState): readonly Omit<E, 'at'>[]
  nameOf(record: Omit<E, 'at'>): string
}

/**
 * The records of sessions in the assigned partitions that are missing and not on their way, `most` and the rest of the last
 * session at most.
 */
export const appendMissing = <E extends EpisodeRecord>(
  { turns, versions }: { turns: TurnsState; versions?: Versions },
  missing: MissingRecords,
  { type, of, nameOf }: RecordKind<E>,
  now: number,
  assigned: (partition: number) => boolean,
  most = Infinity,
): { do: 'append'; record: string; event: E }[] => {
  const outputs: { do: 'append'; record: string; event: E }[] = []
  if (!hasMissing(missing, type, versions)) return outputs
  while (outputs.length < most) {
    const id = next(missing.toLookAt)
    if (id === undefined) break
    const session = turns.sessions.get(id)
    if (!session || !assigned(session.turns[0]?.partition ?? -1)) continue
    for (const said of of(session)) {
      if (missing.appended.has(nameOf(said))) continue
      const event = { ...said, at: now } as E
      const { id: record } = encodeEvent(event, versions)
      missing.appended.set(nameOf(said), record)
      outputs.push({ do: 'append', record, event })
    }
  }
  return outputs
}
