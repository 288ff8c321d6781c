/**
 * Pending turns: those that no batch has taken or dropped yet. A turn of an episode (episodes.ts) is pending from its own
 * record on, because the outcome of the episode may be its only reward; any other turn is pending from its score on.
 * Turns of episodes are in a queue per session, other usable turns in queues by version and API key, so that the cost of
 * a decision does not depend on the number of turns that no batch can use. The queues are a cache of `turns` and `scores`
 * minus `updates` and do not depend on the order in which topics are read.
 */
import {
  updateLine,
  whyUnusable,
  type Queue,
  type Queues,
  type ScoreState,
  type Table,
  type TurnState,
  type UpdatesState,
} from '@instar/events'
import { pendingOf, type EpisodeIndex, type EpisodeState } from './episode-index.ts'

/** The folds from which the pending turns follow, and their queues. */
export type PendingState = EpisodeState & {
  policy: string
  updates: UpdatesState
  /** Pending turns that are in no episode, by queue name (`queueOf`). */
  pending: Queues
  /** Of `episodes`; it is in no snapshot. */
  index: EpisodeIndex
  /** The time of the last usable turn of each API key, ms since the epoch. */
  keys: Table<string, number> & Iterable<readonly [string, number]> & { readonly size: number }
}

/** Scored turns whose own record has not been read. */
const UNREAD = 'unread'
/** Turns that are incomplete, not trainable, discarded, or of another policy. */
const UNUSABLE = 'unusable'

/**
 * Limit of a turn's id, subject and hint together, in bytes; ids of the gateway and hints of judges have about 600.
 * Longer turns are never batched, so that the size of a batch's record is bounded.
 */
export const MAX_ITEM_BYTES = 3072

export const isTooLong = ({ turn, subject, hint }: Pick<ScoreState, 'turn' | 'subject' | 'hint'>): boolean =>
  Buffer.byteLength(turn) + Buffer.byteLength(subject) + (hint?.bytes.length ?? 0) > MAX_ITEM_BYTES

type PendingTurns = Pick<PendingState, 'pending' | 'episodes' | 'index'>

/** Limit of `keys`; the least recently active key is removed. */
const MAX_KEYS = 4096

/** The reason why no batch can use the turn; null for a usable turn. */
export const unusable = (policy: string, turn: TurnState): string | null =>
  turn.policy !== policy ? 'other_policy' : whyUnusable(turn)

const queueOf = ({ policy, turns }: Pick<PendingState, 'policy' | 'turns'>, id: string): string => {
  const turn = turns.turns.get(id)
  if (!turn) return UNREAD
  if (unusable(policy, turn) !== null) return UNUSABLE
  return isOfEpisode({ turns }, turn) ? `${EPISODE}${turn.session}` : `${turn.version} ${turn.key ?? ''}`
}

/** The queue of a session's turns while they wait for its outcome, and after it. */
const EPISODE = 'episode '

/**
 * Whether the turn waits for the outcome of its episode, or an outcome covers it. A background candidate does neither.
 */
export const isOfEpisode = (
  { turns }: Pick<PendingState, 'turns'>,
  { session, shown, task, outcomeBy }: TurnState,
): boolean => outcomeBy !== null || (shown && task !== null && turns.sessions.get(session)?.closed === false)

/** Version and API key ('' without keys) of a queue of usable turns; null for other queues. */
const parseQueueName = (name: string): { version: number; key: string } | null => {
  const at = name.indexOf(' ')
  return at < 0 ? null : { version: Number(name.slice(0, at)), key: name.slice(at + 1) }
}

/** Whether a scored turn waits whose own record has not been read. */
export const hasUnread = ({ pending }: Pick<PendingState, 'pending'>): boolean => (pending.get(UNREAD)?.size ?? 0) > 0

/** Adds a turn when a score of it counts; a turn that is too long is not added. */
export const addScored = (state: PendingState, score: Pick<ScoreState, 'turn' | 'subject' | 'hint'>): void => {
  const { turn } = score
  if (updateLine(state.updates, state.policy).spent.has(turn)) return
  if (isTooLong(score)) return removePending(state, turn)
  enqueue(state, queueOf(state, turn), turn)
  recordActivity(state, turn)
}

/** Removes a turn whose reward is withdrawn when a skip of it counts; a turn of an episode may still have an outcome. */
export const removeSkipped = (state: PendingState, id: string): void => {
  if (!place(state, id)) removePending(state, id)
}

/** Moves a scored turn to its queue when its own record is read; a turn of an episode is added without a score. */
export const turnRead = (state: PendingState, id: string): void => {
  // A record that names another session's turn does not count.
  if (!state.turns.turns.get(id)) return
  if (remove(state, UNREAD, id)) recordActivity(state, id)
  place(state, id)
}

/**
 * Puts a turn that no batch has taken into its queue: a turn of an episode, since its outcome may be its only reward,
 * and any other turn with a reward. Returns whether it is there.
 */
const place = (state: PendingState, id: string): boolean => {
  const { turns, scores, updates, policy } = state
  const turn = turns.turns.get(id)
  const score = scores.turns.get(id)
  if (!turn || updateLine(updates, policy).spent.has(id) || (score && isTooLong(score))) return false
  const rewarded = score !== undefined && score.reward !== null
  if (!rewarded && (unusable(policy, turn) !== null || !isOfEpisode({ turns }, turn))) return false
  enqueue(state, queueOf(state, id), id)
  return true
}

/** Stores the time of a usable turn as the last activity of its key. */
const recordActivity = ({ policy, turns, keys }: PendingState, id: string): void => {
  const turn = turns.turns.get(id)
  if (!turn || turn.key === null || unusable(policy, turn) !== null) return
  const before = keys.get(turn.key)
  if (before !== undefined && before >= turn.finishedAt) return
  keys.set(turn.key, turn.finishedAt)
  if (keys.size > MAX_KEYS) keys.delete([...keys].reduce((a, b) => (b[1] < a[1] ? b : a))[0])
}

/** Runs `fold` on the record that ends or discards a session, and moves the session's turns to their new queues. */
export const moveTurns = <T>(state: PendingState, turns: readonly string[], fold: () => T): T => {
  for (const id of turns) remove(state, queueOf(state, id), id)
  const outcome = fold()
  for (const id of turns) place(state, id)
  return outcome
}

/** Removes a turn from its queue. */
export const removePending = (state: PendingState, id: string): void => {
  if (!remove(state, queueOf(state, id), id)) remove(state, UNREAD, id)
}

/** Where the queue of this name is: the session of an episode has a table of its own. */
const placeOf = ({ pending, episodes }: PendingTurns, name: string): { queues: Queues; key: string } =>
  name.startsWith(EPISODE) ? { queues: episodes, key: name.slice(EPISODE.length) } : { queues: pending, key: name }

const enqueue = (state: PendingTurns, name: string, id: string): void => {
  const { queues, key } = placeOf(state, name)
  if (queues === state.episodes) state.index.touch(key)
  const queue = queues.get(key)
  if (queue) queue.add(id)
  else queues.set(key, new Set([id]))
}

const remove = (state: PendingTurns, name: string, id: string): boolean => {
  const { queues, key } = placeOf(state, name)
  const queue = queues.get(key)
  if (!queue?.has(id)) return false
  if (queues === state.episodes) state.index.touch(key)
  queue.delete(id)
  if (queue.size === 0) queues.delete(key)
  return true
}

export const isPending = (state: PendingState, id: string): boolean => {
  const { queues, key } = placeOf(state, queueOf(state, id))
  return queues.get(key)?.has(id) ?? false
}

/** Whether it is pending and a batch can use it: others are pending until a batch drops them. */
export const isUsable = (state: PendingState, id: string): boolean =>
  isPending(state, id) && queueOf(state, id) !== UNUSABLE

type KeyTurns = { count: number; queues: Queue[] }

/** Usable turns of `versions` by API key ('' without keys), in the order of `versions`, then of their first scores. */
export const usableTurns = (
  { pending }: Pick<PendingState, 'pending'>,
  versions: readonly number[],
): Map<string, KeyTurns> => {
  const order = new Map(versions.map((version, at) => [version, at]))
  const byKey = new Map<string, KeyTurns>()
  for (const name of pending.keys()) {
    const parsed = parseQueueName(name)
    const at = parsed ? order.get(parsed.version) : undefined
    const queue = pending.get(name)
    if (!parsed || at === undefined || !queue) continue
    const own = byKey.get(parsed.key) ?? { count: 0, queues: [] }
    own.count += queue.size
    own.queues[at] = queue
    byKey.set(parsed.key, own)
  }
  return byKey
}

export const countPending = ({ pending, episodes }: PendingTurns): number => {
  let count = 0
  for (const queues of [pending, episodes]) for (const name of queues.keys()) count += queues.get(name)?.size ?? 0
  return count
}

type UnusableTurn = { turn: string; /** Null: unusable with any versions. */ version: number | null }

/** Pending turns that no batch can use when `versions` are the usable versions; unread turns are left out. */
export const notUsableWith = function* (state: PendingState, versions: readonly number[]): Generator<UnusableTurn> {
  const { pending, turns, index } = state
  for (const name of pending.keys()) {
    const version = parseQueueName(name)?.version ?? null
    if (name === UNREAD || (version !== null && versions.includes(version))) continue
    for (const turn of pending.get(name) ?? []) yield { turn, version }
  }
  for (const session of index.unusable(state, versions))
    for (const id of pendingOf(state, session)) {
      const own = turns.turns.get(id)?.version
      if (own !== undefined && !versions.includes(own)) yield { turn: id, version: own }
    }
}
