/** What a gateway knows, between two lives: the index of `turns` and the line of versions, each with its own positions. */
import { InstarError, initialWeights, type Logged, type WeightsState } from '@instar/events'
import { foldVersion, inSlices, packSession, storedWeights, unpackSession, type EventLog, type Offsets, type SnapshotStore } from '@instar/log'
import { addKept, keptSession, settle, type KeptSession, type Place, type SessionIndex, type TurnExtra } from '../core/session-index.ts'

export type Kept = {
  weights: WeightsState
  /** Where each topic is read on from; the index is filled with what was kept. */
  open(log: EventLog): Promise<{ turns: Offsets; weights: Offsets }>
  /** A record of `turns` or of `weights` was folded; what it returns must be waited for before the topic's next. */
  after(logged: Logged): Promise<void> | undefined
  /** `save` false: as if the process had been killed. */
  close(how?: { save?: boolean }): Promise<void>
}

type Extra = [key: string | null, bodyDepth: number, idsDepth: number, tools: boolean | null, said: boolean]
type Stored = [place: Place, turns?: ReturnType<typeof packSession>, extras?: (Extra | undefined)[]]

const packExtra = (extra: TurnExtra | undefined): Extra | undefined => extra && [extra.key, extra.bodyDepth, extra.idsDepth, extra.tools, extra.said]
const unpackExtra = (packed: Extra | undefined): TurnExtra | undefined => packed && { key: packed[0], bodyDepth: packed[1], idsDepth: packed[2], tools: packed[3], said: packed[4] }

const stateVersion = (): string => foldVersion(['../core/session-index.ts', './kept.ts'].map((name) => new URL(name, import.meta.url)))

/** Without a store nothing is kept: the log is read from its start. */
export const keep = (store: SnapshotStore | undefined, policy: string, index: SessionIndex): Kept => {
  if (!store) return { weights: initialWeights(), open: async () => ({ turns: {}, weights: {} }), after: () => undefined, close: async () => undefined }
  const version = stateVersion()
  const turns = store.of(`gateway.${policy}.turns`, version)
  const versions = store.of(`gateway.${policy}.weights`, version)
  const changed = index.changed = new Set<string>()
  const sessions = turns.mirror('sessions', {
    changed,
    entry(session): Stored | undefined {
      const kept = keptSession(index, session)
      return kept && ('state' in kept ? [kept.place, packSession(kept.state), kept.extras.map(packExtra)] : [kept.place])
    },
  })

  const readKept = async (): Promise<void> => {
    const kept: { session: string; at: number; one: KeptSession }[] = []
    await sessions.load((session, entry) => {
      const [place, rows, extras] = entry as Stored
      if (!rows || !extras) kept.push({ session, at: place.offset, one: { place } })
      else {
        const state = unpackSession(rows, session)
        kept.push({ session, at: state.lastAt, one: { place, state, extras: extras.map(unpackExtra) } })
      }
    })
    // Of those that were forgotten the ones that lie furthest back come first, and are let go first.
    await inSlices(kept.sort((a, b) => a.at - b.at), ({ session, one }) => addKept(index, session, one))
    settle(index)
    changed.clear()
  }

  return {
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
