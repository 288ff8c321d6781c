/** The states of the shared folds on the tables of a snapshot, with the same interfaces as the states in memory. */
import {
  sessionOfTurn,
  type BatchState,
  type Keys,
  type ScoresState,
  type ScoreState,
  type Table,
  type TurnsState,
  type UpdateLine,
  type UpdatesState,
  type GateVerdict,
  type VersionState,
  type WeightLine,
  type WeightsState,
} from '@instar/events'
import { packScore, unpackScore, type PackedScore } from './sessions.ts'
import type { Snapshot } from './snapshot.ts'
import { keysOf } from './tables.ts'

export const storedTurns = (snapshot: Snapshot): TurnsState => {
  const { sessions } = snapshot
  const turn = (id: string) => sessions.get(sessionOfTurn(id))?.byId.get(id)
  return {
    sessions,
    turns: { get: turn, has: (id) => turn(id) !== undefined, set: (_, changed) => sessions.turnChanged(changed) },
  }
}

export const storedScores = (snapshot: Snapshot, policy: string): ScoresState => ({
  turns: snapshot.bySession<ScoreState>(`scores ${policy}`, {
    pack: (score) => packScore(score, policy),
    unpack: (packed, turn) => unpackScore(packed as PackedScore, turn, policy),
  }),
})

/** A table by turn. `pack` must return a value that JSON represents exactly. */
export const storedBySession = <V, P>(
  snapshot: Snapshot,
  name: string,
  pack: (value: V) => P,
  unpack: (packed: P) => V,
): Table<string, V> => snapshot.bySession<V>(name, { pack, unpack: (packed) => unpack(packed as P), json: true })

/** A table by policy whose values are created at their first use. */
export const storedByPolicy = <S>(make: (policy: string) => S): Table<string, S> => {
  const made = new Map<string, S>()
  const get = (policy: string): S => {
    let state = made.get(policy)
    if (state === undefined) made.set(policy, (state = make(policy)))
    return state
  }
  return { get, has: () => true, set: () => undefined, delete: () => undefined }
}

const NO_LIST = { push: () => undefined }
/** A table that the service does not use. */
const NO_TABLE: Keys & Table<string, never> = {
  has: () => false,
  get: () => undefined,
  add: () => undefined,
  set: () => undefined,
  delete: () => undefined,
}

type ScalarFields<L, K extends keyof L> = Pick<L, K> & { tip: string }

/** Lines by policy: their scalar fields are stored as a row of `heads`, their tables separately. */
const storedLine = <L extends { chain: { tip: string } }, K extends keyof L>(
  heads: Table<string, ScalarFields<L, K>>,
  make: (policy: string, head: ScalarFields<L, K> | undefined) => L,
  scalars: (line: L) => Pick<L, K>,
): Table<string, L> => {
  const lines = storedByPolicy((policy) => make(policy, heads.get(policy)))
  return { ...lines, set: (policy, line) => heads.set(policy, { ...scalars(line), tip: line.chain.tip }) }
}

/** `training`: also stores spent turns and baselines, which only a trainer uses. */
export const storedUpdates = (snapshot: Snapshot, { training }: { training: boolean }): UpdatesState => ({
  lines: storedLine<UpdateLine, 'count' | 'failed' | 'last' | 'binding'>(
    snapshot.table('updates'),
    (policy, head) => ({
      chain: { tip: head?.tip ?? '', read: snapshot.keys(`updates read ${policy}`) },
      count: head?.count ?? 0,
      failed: head?.failed ?? 0,
      last: head?.last ?? '',
      binding: head?.binding ?? null,
      batches: NO_LIST,
      byId: snapshot.table<BatchState>(`batches ${policy}`, {
        compress: true,
        weightOf: ({ sealed }) => sealed.items.length + sealed.dropped.length + 1,
      }),
      byUpdate: snapshot.table<string>(`batch of ${policy}`),
      spent: training ? keysOf(snapshot.bySession<true>(`spent ${policy}`, { json: true })) : NO_TABLE,
      baselines: training ? snapshot.table(`baselines ${policy}`) : NO_TABLE,
    }),
    ({ count, failed, last, binding }) => ({ count, failed, last, binding }),
  ),
})

export const storedWeights = (snapshot: Snapshot): WeightsState => ({
  lines: storedLine<
    WeightLine,
    'started' | 'last' | 'head' | 'frozen' | 'verdictCount' | 'bestContent' | 'rejectionsInARow' | 'moveCount'
  >(
    snapshot.table('weights'),
    (policy, head) => ({
      chain: { tip: head?.tip ?? '', read: snapshot.keys(`weights read ${policy}`) },
      started: head?.started ?? null,
      last: head?.last ?? 0,
      head: head?.head ?? 0,
      frozen: head?.frozen ?? false,
      verdictCount: head?.verdictCount ?? 0,
      bestContent: head?.bestContent ?? null,
      rejectionsInARow: head?.rejectionsInARow ?? 0,
      moveCount: head?.moveCount ?? 0,
      versions: byNumber(snapshot.table<VersionState>(`versions ${policy}`)),
      verdicts: snapshot.table<GateVerdict>(`verdicts ${policy}`),
      rejected: NO_LIST,
      moves: NO_LIST,
      requests: snapshot.keys(`requests ${policy}`),
    }),
    ({ started, last, head, frozen, verdictCount, bestContent, rejectionsInARow, moveCount }) => ({
      started,
      last,
      head,
      frozen,
      verdictCount,
      bestContent,
      rejectionsInARow,
      moveCount,
    }),
  ),
})

const byNumber = <V>(table: Table<string, V>): Table<number, V> => ({
  get: (key) => table.get(String(key)),
  has: (key) => table.has(String(key)),
  set: (key, value) => table.set(String(key), value),
  delete: (key) => table.delete(String(key)),
})
