/** The shared folds' states on a snapshot's tables: the folds themselves do not see the difference. */
import {
  sessionOfTurn,
  type BatchState,
  type Keys,
  type ScoresState,
  type ScoreState,
  type SessionState,
  type Table,
  type TurnsState,
  type UpdateLine,
  type UpdatesState,
  type GateVerdict,
  type VersionState,
  type WeightLine,
  type WeightsState,
} from '@instar/events'
import { packScores, packSession, unpackScores, unpackSession } from './sessions.ts'
import type { Snapshot } from './snapshot.ts'
import { bySession, keysOf } from './tables.ts'

/** Feedback holds bytes, and any number. */
const isPlain = ({ turns }: SessionState): boolean => turns.every(({ feedback }) => feedback.length === 0)

export const storedTurns = (snapshot: Snapshot): TurnsState => {
  const sessions = snapshot.table<SessionState>('sessions', {
    pack: packSession,
    unpack: unpackSession,
    json: isPlain,
    weigh: ({ turns }) => turns.length,
  })
  const turn = (id: string) => sessions.get(sessionOfTurn(id))?.byId.get(id)
  // A turn is in its session's entry.
  return { sessions, turns: { get: turn, has: (id) => turn(id) !== undefined, set: () => undefined } }
}

export const storedScores = (snapshot: Snapshot, policy: string): ScoresState => ({
  turns: bySession(
    snapshot.table<Map<string, ScoreState>>(`scores ${policy}`, {
      pack: (scores) => packScores(scores, policy),
      unpack: (packed, session) => unpackScores(packed, session, policy),
      weigh: ({ size }) => size,
    }),
    sessionOfTurn,
  ),
})

/** What is known of single turns, an entry for each session. `pack` gives what JSON gives back as it is. */
export const storedBySession = <V, P>(
  snapshot: Snapshot,
  name: string,
  pack: (value: V) => P,
  unpack: (packed: P) => V,
): Table<string, V> =>
  bySession(
    snapshot.table<Map<string, V>>(name, {
      pack: (values) => [...values].map(([turn, value]) => [turn.slice(turn.lastIndexOf('.')), pack(value)]),
      unpack: (packed, session) =>
        new Map((packed as [string, P][]).map(([turn, value]) => [session + turn, unpack(value)])),
      json: () => true,
      weigh: ({ size }) => size,
    }),
    sessionOfTurn,
  )

/** One fold for each policy, made when it is asked for. */
export const storedByPolicy = <S>(make: (policy: string) => S): Table<string, S> => {
  const made = new Map<string, S>()
  const get = (policy: string): S => {
    let state = made.get(policy)
    if (state === undefined) made.set(policy, (state = make(policy)))
    return state
  }
  return { get, has: () => true, set: () => undefined, delete: () => undefined }
}

const NOWHERE = { push: () => undefined }
/** What this service never asks for. */
const NONE: Keys & Table<string, never> = {
  has: () => false,
  get: () => undefined,
  add: () => undefined,
  set: () => undefined,
  delete: () => undefined,
}

type Scalars<L, K extends keyof L> = Pick<L, K> & { tip: string }

/** A line's single values are a row of `heads`; its tables are its own. */
const storedLine = <L extends { chain: { tip: string } }, K extends keyof L>(
  heads: Table<string, Scalars<L, K>>,
  make: (policy: string, head: Scalars<L, K> | undefined) => L,
  scalars: (line: L) => Pick<L, K>,
): Table<string, L> => {
  const lines = storedByPolicy((policy) => make(policy, heads.get(policy)))
  return { ...lines, set: (policy, line) => heads.set(policy, { ...scalars(line), tip: line.chain.tip }) }
}

/** `training`: spent turns and baselines are kept, which only a trainer asks for. */
export const storedUpdates = (snapshot: Snapshot, { training }: { training: boolean }): UpdatesState => ({
  lines: storedLine<UpdateLine, 'count' | 'failed' | 'last'>(
    snapshot.table('updates'),
    (policy, head) => ({
      chain: { tip: head?.tip ?? '', read: snapshot.keys(`updates read ${policy}`) },
      count: head?.count ?? 0,
      failed: head?.failed ?? 0,
      last: head?.last ?? '',
      batches: NOWHERE,
      byId: snapshot.table<BatchState>(`batches ${policy}`, {
        squeeze: true,
        weigh: ({ sealed }) => sealed.items.length + sealed.dropped.length + 1,
      }),
      byUpdate: snapshot.table<string>(`batch of ${policy}`),
      spent: training
        ? keysOf(
            bySession(
              snapshot.table<Map<string, true>>(`spent ${policy}`, { weigh: ({ size }) => size }),
              sessionOfTurn,
            ),
          )
        : NONE,
      baselines: training ? snapshot.table(`baselines ${policy}`) : NONE,
    }),
    ({ count, failed, last }) => ({ count, failed, last }),
  ),
})

export const storedWeights = (snapshot: Snapshot): WeightsState => ({
  lines: storedLine<
    WeightLine,
    'started' | 'last' | 'head' | 'frozen' | 'verdictCount' | 'bestContent' | 'refusals' | 'moveCount'
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
      refusals: head?.refusals ?? 0,
      moveCount: head?.moveCount ?? 0,
      versions: byNumber(snapshot.table<VersionState>(`versions ${policy}`)),
      verdicts: snapshot.table<GateVerdict>(`verdicts ${policy}`),
      rejected: NOWHERE,
      moves: NOWHERE,
      requests: snapshot.keys(`requests ${policy}`),
    }),
    ({ started, last, head, frozen, verdictCount, bestContent, refusals, moveCount }) => ({
      started,
      last,
      head,
      frozen,
      verdictCount,
      bestContent,
      refusals,
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
