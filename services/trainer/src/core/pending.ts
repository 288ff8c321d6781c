/**
 * Scored turns that no batch has taken, in queues by what a batch asks for: the version that spoke, and the API key
 * that the turn came with. So what a decision costs does not hang on how many wait that no batch can use. A cache of
 * scores − updates: which turns wait, and where, is the same however topics interleave.
 */
import {
  updateLine,
  type FoldOutcome,
  type Queue,
  type Queues,
  type ScoresState,
  type ScoreState,
  type Table,
  type TurnsState,
  type TurnState,
  type UpdatesState,
} from '@instar/events'

/** The folds that decide which turns wait, and the cache of them. */
export type PendingState = {
  policy: string
  turns: TurnsState
  scores: ScoresState
  updates: UpdatesState
  /** Scored and not spent. */
  pending: Queues
  /** API keys with usable turns, and the time of the last turn of each, ms since the epoch. */
  keys: Table<string, number> & Iterable<readonly [string, number]> & { readonly size: number }
}

/** Scored turns whose own record has not been read. */
const UNREAD = 'unread'
/** Turns that were cut, are not to be trained on, or are another policy's. */
const UNUSABLE = 'unusable'

/**
 * Bytes of a turn's id, its subject and its hint, together: the gateway's ids and the judges' hints come to some 600.
 * What is longer is never put into a batch, so that the size of a batch's record has a bound.
 */
export const MOST_BYTES = 3072

export const isTooLong = ({ turn, subject, hint }: Pick<ScoreState, 'turn' | 'subject' | 'hint'>): boolean =>
  Buffer.byteLength(turn) + Buffer.byteLength(subject) + (hint?.bytes.length ?? 0) > MOST_BYTES

type PendingTurns = { pending: Queues }

/** Limit of keys with a stored time of their last turn. */
const MOST_KEYS = 4096

/** Null: of the turns that a batch may take; else why none ever will. */
export const unusable = (policy: string, turn: TurnState): string | null =>
  turn.policy !== policy
    ? 'other_policy'
    : turn.discardedBy !== null
      ? 'discarded'
      : turn.status !== 'complete'
        ? (turn.reason ?? turn.status).slice(0, 100)
        : !turn.trainable
          ? (turn.reason ?? 'not_trainable').slice(0, 100)
          : null

const placeOf = ({ policy, turns }: Pick<PendingState, 'policy' | 'turns'>, id: string): string => {
  const turn = turns.turns.get(id)
  if (!turn) return UNREAD
  return unusable(policy, turn) === null ? `${turn.version} ${turn.key ?? ''}` : UNUSABLE
}

/** Of a queue of usable turns: its version and its key, '' without keys; null of the others. */
const readPlace = (place: string): { version: number; key: string } | null => {
  const at = place.indexOf(' ')
  return at < 0 ? null : { version: Number(place.slice(0, at)), key: place.slice(at + 1) }
}

/** A score of the turn counted, a skip aside. */
export const scored = (state: PendingState, score: Pick<ScoreState, 'turn' | 'subject' | 'hint'>): void => {
  const { turn } = score
  if (updateLine(state.updates, state.policy).spent.has(turn)) return
  if (isTooLong(score)) return spent(state, turn)
  put(state, placeOf(state, turn), turn)
  hear(state, turn)
}

/** The turn's own record was read. */
export const arrived = (state: PendingState, id: string): void => {
  if (!remove(state, UNREAD, id)) return
  put(state, placeOf(state, id), id)
  hear(state, id)
}

/** A usable turn says that its key is one that the model learns from. */
const hear = ({ policy, turns, keys }: PendingState, id: string): void => {
  const turn = turns.turns.get(id)
  if (!turn || turn.key === null || unusable(policy, turn) !== null) return
  const before = keys.get(turn.key)
  if (before !== undefined && before >= turn.finishedAt) return
  keys.set(turn.key, turn.finishedAt)
  if (keys.size > MOST_KEYS) keys.delete([...keys].reduce((a, b) => (b[1] < a[1] ? b : a))[0])
}

/** What was said in a session is not to be learned from: its turns go to those that are unusable. */
export const discarded = (state: PendingState, turns: readonly string[], fold: () => FoldOutcome): FoldOutcome => {
  const waiting = turns.filter((id) => remove(state, placeOf(state, id), id))
  const outcome = fold()
  for (const id of waiting) put(state, placeOf(state, id), id)
  return outcome
}

/** A batch has it, or none will. */
export const spent = (state: PendingState, id: string): void => {
  if (!remove(state, placeOf(state, id), id)) remove(state, UNREAD, id)
}

const put = ({ pending }: PendingTurns, place: string, id: string): void => {
  const queue = pending.get(place)
  if (queue) queue.add(id)
  else pending.set(place, new Set([id]))
}

const remove = ({ pending }: PendingTurns, place: string, id: string): boolean => {
  const queue = pending.get(place)
  if (!queue?.has(id)) return false
  queue.delete(id)
  if (queue.size === 0) pending.delete(place)
  return true
}

export const waits = (state: PendingState, id: string): boolean =>
  state.pending.get(placeOf(state, id))?.has(id) ?? false

type KeyTurns = { count: number; queues: Queue[] }

/**
 * Usable turns of these versions by API key ('' without keys), in the order of `versions` and of their first scores.
 */
export const usableTurns = ({ pending }: PendingTurns, versions: readonly number[]): Map<string, KeyTurns> => {
  const places = new Map(versions.map((version, at) => [version, at]))
  const byKey = new Map<string, KeyTurns>()
  for (const place of pending.keys()) {
    const read = readPlace(place)
    const at = read ? places.get(read.version) : undefined
    const queue = pending.get(place)
    if (!read || at === undefined || !queue) continue
    const own = byKey.get(read.key) ?? { count: 0, queues: [] }
    own.count += queue.size
    own.queues[at] = queue
    byKey.set(read.key, own)
  }
  return byKey
}

export const countPending = ({ pending }: PendingTurns): number => {
  let count = 0
  for (const place of pending.keys()) count += pending.get(place)?.size ?? 0
  return count
}

type LeftOver = { turn: string; /** Null: unusable, whatever the version. */ version: number | null }

/** Turns that a batch which takes those of `versions` leaves for good. */
export const leftOver = function* ({ pending }: PendingTurns, versions: readonly number[]): Generator<LeftOver> {
  for (const place of pending.keys()) {
    const version = readPlace(place)?.version ?? null
    if (place === UNREAD || (version !== null && versions.includes(version))) continue
    for (const turn of pending.get(place) ?? []) yield { turn, version }
  }
}
