/** The gateway's snapshot between runs: the index of `turns` and the version line, each with its own positions. */
import { InstarError, initialWeights, type Logged, type WeightsState } from '@instar/events'
import {
  inSlices,
  storedTurns,
  storedWeights,
  type EventLog,
  type Migration,
  type Offsets,
  type Snapshot,
  type SnapshotStore,
  type StateVersion,
} from '@instar/log'
import { addListed, applyEntry, listEntry, type ListEntry, type ListedSession } from './core/listed-sessions.ts'
import { initialIndex, shrink, type Limits, type SessionIndex } from './core/session-index.ts'
import { HELD, type HeldNames } from './core/held-names.ts'
import { fill } from './fill.ts'
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

/** `names`: the first version whose table of names this one continues. After an earlier or a later one the log is read again. */
export type GatewayVersion = Pick<StateVersion, 'number' | 'digests'> & {
  migrations: Readonly<Record<'turns' | 'weights', Readonly<Record<number, Migration>>>>
  names: number
}

const AS_IT_IS: Migration = () => undefined

/**
 * Of the state that is stored: both files, and the table of names. A change of its form or of its fold takes the next number, with
 * migrations where the old state has what the new one needs; test/snapshots/gateway-versions.test.ts fails without. `digests`: of the
 * builds of 2026-11-28 before the number. Version 2: the recent sessions are changes of a list, as which those of 1 can be read.
 */
export const STATE_VERSION: GatewayVersion = {
  number: 2,
  migrations: { turns: { 1: AS_IT_IS }, weights: { 1: AS_IT_IS } },
  names: 1,
  digests: { '4e211f050f21ba7f': 1, '6ce885d7ed48f580': 1, '3dbd0920814fd85b': 1, '3d37c253b81f2735': 1 },
}

/** Names of an earlier form are made again from the log, so that this is done beside their state, too. */
const versionOf = (version: GatewayVersion, topic: 'turns' | 'weights'): StateVersion => {
  const { number, digests, names, migrations } = version
  const all = Object.entries(migrations[topic])
  const kept = topic === 'turns' ? all.filter(([from]) => Number(from) >= names) : all
  return { number, migrations: Object.fromEntries(kept), ...(digests ? { digests } : {}) }
}

/** Of the state of `turns`. */
export const TURNS_VERSION = versionOf(STATE_VERSION, 'turns')

export const marksIn = (turns: Snapshot): SessionIndex['byMintedId'] =>
  turns.table<string>('marks', { json: () => true, once: true })

/** Without a store there is no snapshot: the log is read from its start. */
export const openSnapshot = (
  store: Pick<SnapshotStore, 'of'> | undefined,
  policy: string,
  limits: Limits,
  held?: NameTableOptions,
  version: GatewayVersion = STATE_VERSION,
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
  const turns = store.of(`gateway.${policy}.turns`, versionOf(version, 'turns'))
  const versions = store.of(`gateway.${policy}.weights`, versionOf(version, 'weights'))
  const table = held ? new NameTable(held, turns.resident<HeldNames>(HELD.table), version) : null
  const index: SessionIndex = {
    ...initialIndex(limits),
    fold: storedTurns(turns),
    memory: null,
    held: table,
    byMintedId: marksIn(turns),
  }
  // Requests evict sessions while a snapshot is written: the names are read again from the sessions themselves.
  const recent = turns.list('recent', {
    keys: () => [...index.recent.keys()],
    entry: (session, change) => listEntry(index, session, change),
  })
  index.listing = recent

  /** `isNew`: the log is read from its start. Throws `snapshot_damaged`. */
  const readKept = async (isNew: boolean): Promise<void> => {
    const isUnfilled = table?.isUnfilled === true
    const problem = await table?.open(turns.path, isNew)
    if (problem) throw new InstarError('snapshot_damaged', problem)
    const list = new Map<string, ListedSession>()
    await recent.load((entry) => applyEntry(list, entry as ListEntry))
    const lacksNames = isUnfilled && table.isOpen
    // The state of a checkpoint lacks both.
    const isFilled = !isNew && (lacksNames || list.size === 0)
    const made = isFilled ? await fill(turns, limits, lacksNames ? table : null) : list
    const steps = addListed(index, list.size === 0 ? made : list, (session, from) =>
      turns.sessions.brief(session, from),
    )
    await inSlices(steps, (damage) => {
      if (damage !== null) throw new InstarError('snapshot_damaged', damage)
    })
    shrink(index)
    if (!isFilled) return
    for (const session of index.recent.keys()) recent.note(session, 'moved')
    await turns.saveChanges()
  }

  return {
    index,
    names: table,
    weights: storedWeights(versions),
    async open(log) {
      const from = { turns: await turns.open(log, ['turns']), weights: await versions.open(log) }
      for (let attempt = 1; ; attempt += 1)
        try {
          await readKept(Object.keys(from.turns).length === 0)
          return from
        } catch (error) {
          if (!(error instanceof InstarError) || error.code !== 'snapshot_damaged' || attempt > 2) throw error
          // A checkpoint, where there is one; then the start of the log.
          if (attempt === 1) from.turns = await turns.startAgain(error.message, log, ['turns'])
          else await turns.startOver(error.message)
          if (attempt === 2) from.turns = {}
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
