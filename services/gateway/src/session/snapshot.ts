/** The gateway's snapshot between runs: the index of `turns` and the version line, each with its own positions. */
import { InstarError, initialWeights, type Logged, type WeightsState } from '@instar/events'
import { foldVersion, storedTurns, storedWeights, type EventLog, type Offsets, type SnapshotStore } from '@instar/log'
import { addListed, listed, type ListedSession } from './core/listed-sessions.ts'
import { initialIndex, shrink, type Limits, type SessionIndex } from './core/session-index.ts'
import type { HeldNames } from './core/held-names.ts'
import { NameTable, type NameTableOptions } from './name-table.ts'

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

let version: string | undefined
/** The sources are read once in a process. */
const stateVersion = (): string =>
  (version ??= foldVersion([
    ...[
      './core/session-index.ts',
      './core/names.ts',
      './core/listed-sessions.ts',
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
  const index: SessionIndex = {
    ...initialIndex(limits),
    fold: storedTurns(turns),
    memory: null,
    held: table,
    byMintedId: turns.table<string>('marks', { json: () => true }),
  }
  // Requests evict sessions while a snapshot is written: what is listed is read again from the sessions themselves.
  const recent = turns.list('recent', {
    keys: () => [...index.recent.keys()],
    value: (session) => listed(index, session),
  })

  const readKept = async (): Promise<void> => {
    const list: ListedSession[] = []
    await recent.load((one) => void list.push(one as ListedSession))
    const problem = addListed(index, list)
    if (problem !== null) throw new InstarError('snapshot_damaged', problem)
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
