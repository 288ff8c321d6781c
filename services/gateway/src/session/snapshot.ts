/** The gateway's snapshot between runs: the index of `turns` and the version line, each with its own positions. */
import { InstarError, initialWeights, type Logged, type WeightsState } from '@instar/events'
import {
  foldVersion,
  inSlices,
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
  type Names,
  type RecentSession,
  type SessionIndex,
  type TurnExtra,
} from './core/session-index.ts'

export type GatewaySnapshot = {
  index: SessionIndex
  weights: WeightsState
  /** Loads the snapshot into the index and returns the position from which each topic is read. */
  open(log: EventLog): Promise<{ turns: Offsets; weights: Offsets }>
  /**
   * Called after a record of `turns` or `weights` was folded. The result must be awaited before the topic's next
   * record.
   */
  after(logged: Logged): Promise<void> | undefined
  /** `save` false: skips the final snapshot, as after a kill. */
  close(how?: { save?: boolean }): Promise<void>
}

/** For each turn, the part of its id after the session's. */
type Row = [at: number, partition: number, offset: number, turns: [string, Names][]]
type Extra = [
  key: string | null,
  bodyDepth: number,
  idsDepth: number,
  tools: boolean | null,
  said: boolean,
  words: string | null,
]

const stateVersion = (): string =>
  foldVersion([
    ...['./core/session-index.ts', './snapshot.ts'].map((name) => new URL(name, import.meta.url)),
    ...['@instar/dialects/minted', '@instar/events/answer-in-text'].map((name) => new URL(import.meta.resolve(name))),
  ])

/** Without a store there is no snapshot: the log is read from its start. */
export const openSnapshot = (store: SnapshotStore | undefined, policy: string, limits: Limits): GatewaySnapshot => {
  if (!store)
    return {
      index: initialIndex(limits),
      weights: initialWeights(),
      open: async () => ({ turns: {}, weights: {} }),
      after: () => undefined,
      close: async () => undefined,
    }
  const version = stateVersion()
  const turns = store.of(`gateway.${policy}.turns`, version)
  const versions = store.of(`gateway.${policy}.weights`, version)
  const changed = new Set<string>()
  const index: SessionIndex = {
    ...initialIndex(limits),
    fold: storedTurns(turns),
    memory: null,
    changed,
    byMintedId: turns.table<string>('marks', { json: () => true }),
    extras: storedBySession<TurnExtra, Extra>(
      turns,
      'extras',
      (e) => [e.key, e.bodyDepth, e.idsDepth, e.tools, e.said, e.words],
      ([key, bodyDepth, idsDepth, tools, said, words]) => ({ key, bodyDepth, idsDepth, tools, said, words }),
    ),
  }
  const recent = turns.mirror('recent', {
    changed,
    entry(session): Row | undefined {
      const saved = index.recent.get(session)
      return (
        saved && [
          saved.at,
          saved.place.partition,
          saved.place.offset,
          saved.turns.map(([turn, names]) => [turn.slice(session.length), names]),
        ]
      )
    },
  })

  const readKept = async (): Promise<void> => {
    const saved: [string, RecentSession][] = []
    await recent.load((session, entry) => {
      const [at, partition, offset, rows] = entry as Row
      saved.push([
        session,
        { at, place: { partition, offset }, turns: rows.map(([turn, names]) => [session + turn, names]) },
      ])
    })
    await inSlices(
      saved.sort(([, a], [, b]) => a.at - b.at),
      ([session, one]) => addFromSnapshot(index, session, one),
    )
    shrink(index)
  }

  return {
    index,
    weights: storedWeights(versions),
    async open(log) {
      const from = { turns: await turns.open(log), weights: await versions.open(log) }
      try {
        await readKept()
        return from
      } catch (error) {
        if (!(error instanceof InstarError) || error.code !== 'snapshot_damaged') throw error
        await turns.startOver(error.message)
        return { ...from, turns: {} }
      }
    },
    after: (logged) => (logged.topic === 'turns' ? turns.after(logged) : versions.after(logged)),
    async close(how) {
      await Promise.all([turns.close(how), versions.close(how)])
    },
  }
}
