/** The gateway's snapshot between runs: the index of `turns` and the version line, each with its own positions. */
import { InstarError, initialWeights, type Logged, type WeightsState } from '@instar/events'
import {
  foldVersion,
  storedBySession,
  storedTurns,
  storedWeights,
  type EventLog,
  type Offsets,
  type SnapshotStore,
} from '@instar/log'
import {
  addFromSnapshot,
  initialIndex,
  shrink,
  type Limits,
  type SessionIndex,
  type TurnExtra,
} from './core/session-index.ts'
import type { HeldNames } from './core/held-names.ts'
import { NameTable, type NameTableOptions } from './name-table.ts'
import { parseRowKey, rowOf, type ChangedRecent, type NamedRow, type Names, type RecentSession } from './core/names.ts'

export type GatewaySnapshot = {
  index: SessionIndex
  /** The names of turns outside memory; null without a table. */
  names: NameTable | null
  weights: WeightsState
  /** Loads the snapshot into the index and returns the position from which each topic is read. */
  open(log: EventLog): Promise<{ turns: Offsets; weights: Offsets }>
  /**
   * Called after a record of `turns` or `weights` was folded. The result must be awaited before the topic's next
   * record.
   */
  after(logged: Logged): Promise<void> | undefined
  /** Reads a long session into memory in slices before its use. Undefined if there is nothing to wait for. */
  load(session: string): Promise<void> | undefined
  /** `save` false: skips the final snapshot, as after a kill. */
  close(how?: { save?: boolean }): Promise<void>
}

/** `first`, `count`: of the named turns. */
type Row = [at: number, partition: number, offset: number, first: number, count: number]
/** Named turns from the index `at` on. For each turn, the part of its id after the session's. */
type NamesRow = [at: number, turns: [turn: string, names: Names, seq: number][]]
type Extra = [
  key: string | null,
  bodyDepth: number,
  idsDepth: number,
  tools: boolean | null,
  said: boolean,
  words: string | null,
]

let version: string | undefined
/** The sources are read once in a process. */
const stateVersion = (): string =>
  (version ??= foldVersion([
    ...[
      './core/session-index.ts',
      './core/names.ts',
      './core/held-names.ts',
      './name-rows.ts',
      './snapshot.ts',
      './name-table.ts',
    ].map((name) => new URL(name, import.meta.url)),
    ...['@instar/dialects/minted', '@instar/events/answer-in-text'].map((name) => new URL(import.meta.resolve(name))),
  ]))

/** Without a store there is no snapshot: the log is read from its start. */
export const openSnapshot = (
  store: SnapshotStore | undefined,
  policy: string,
  limits: Limits,
  held?: NameTableOptions,
): GatewaySnapshot => {
  if (!store)
    return {
      index: initialIndex(limits),
      names: null,
      weights: initialWeights(),
      open: async () => ({ turns: {}, weights: {} }),
      after: () => undefined,
      load: () => undefined,
      close: async () => undefined,
    }
  const turns = store.of(`gateway.${policy}.turns`, stateVersion())
  const versions = store.of(`gateway.${policy}.weights`, stateVersion())
  const table = held ? new NameTable(held, turns.resident<HeldNames>('held names')) : null
  const changed: ChangedRecent = { sessions: new Set(), rows: new Set() }
  const index: SessionIndex = {
    ...initialIndex(limits),
    fold: storedTurns(turns),
    memory: null,
    changed,
    held: table,
    byMintedId: turns.table<string>('marks', { json: () => true }),
    extras: storedBySession<TurnExtra, Extra>(
      turns,
      'extras',
      (e) => [e.key, e.bodyDepth, e.idsDepth, e.tools, e.said, e.words],
      ([key, bodyDepth, idsDepth, tools, said, words]) => ({ key, bodyDepth, idsDepth, tools, said, words }),
    ),
  }
  const recent = turns.mirror('recent', {
    changed: changed.sessions,
    entry(session): Row | undefined {
      const saved = index.recent.get(session)
      return saved && [saved.at, saved.place.partition, saved.place.offset, saved.first, saved.turns.length]
    },
  })
  const names = turns.mirror('recent names', {
    changed: changed.rows,
    entry(key): NamedRow | undefined {
      const { session, n } = parseRowKey(key)
      const saved = index.recent.get(session)
      return saved && rowOf(saved, n)
    },
    pack(key, row): NamesRow {
      const { session } = parseRowKey(key)
      const { at, turns: its } = row as NamedRow
      return [at, its.map(([turn, names, seq]) => [turn.slice(session.length), names, seq])]
    },
  })

  const readKept = async (): Promise<void> => {
    const saved = new Map<string, RecentSession & { count: number }>()
    await recent.load((session, entry) => {
      const [at, partition, offset, first, count] = entry as Row
      saved.set(session, { at, place: { partition, offset }, first, count, turns: [] })
    })
    // Rows are read in the order of their keys: each puts its turns where they belong.
    await names.load((key, entry) => {
      const { session } = parseRowKey(key)
      const one = saved.get(session)
      const [at, rows] = entry as NamesRow
      for (const [i, [turn, its, seq]] of rows.entries())
        if (one && at + i >= one.first)
          one.turns[at + i - one.first] = { session, at: at + i, turn: session + turn, names: its, seq }
    })
    for (const [session, { count, turns: found }] of saved)
      if (found.length !== count || found.includes(undefined as never))
        throw new InstarError('snapshot_damaged', `names of turns of the session ${session} are missing`)
    addFromSnapshot(
      index,
      [...saved].sort(([, a], [, b]) => a.at - b.at).map(([session, { count: _, ...one }]) => [session, one] as const),
    )
    shrink(index)
  }

  return {
    index,
    names: table,
    weights: storedWeights(versions),
    async open(log) {
      const from = { turns: await turns.open(log), weights: await versions.open(log) }
      try {
        const problem = await table?.open(turns.path, Object.keys(from.turns).length === 0)
        if (problem) throw new InstarError('snapshot_damaged', problem)
        await readKept()
        return from
      } catch (error) {
        if (!(error instanceof InstarError) || error.code !== 'snapshot_damaged') throw error
        await turns.startOver(error.message)
        await table?.reset()
        return { ...from, turns: {} }
      }
    },
    load: (session) => turns.load(session),
    after: (logged) =>
      logged.topic === 'turns' ? turns.after(logged, table ? () => table.write() : undefined) : versions.after(logged),
    async close(how) {
      if (how?.save !== false) await table?.write()
      await Promise.all([turns.close(how), versions.close(how)])
      await table?.close()
    },
  }
}
