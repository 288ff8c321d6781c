/**
 * Selects the usable turns of a batch. API keys take turns, one request each, so that a key with many turns does not
 * delay the others. While at least two keys are active, no key has more than its share of a batch, and a batch that the
 * other keys do not fill waits: the requests of a single key must not decide an update for all users. A single key, or
 * turns without keys, fill a batch alone. A client chooses its subjects, so a subject's share is no limit: turns beyond it
 * come after those of other subjects.
 */
import type { BatchItem, Queue, TurnState } from '@instar/events'
import { combine } from './baseline.ts'
import { episodeGroups, outcomeOf, partsOf, type EpisodeGroup, type EpisodeSettings } from './episodes.ts'
import { isOfEpisode, isPending, isUsable, unusable, usableTurns } from './pending.ts'
import type { TrainerState } from './state.ts'

export type ChoiceSettings = EpisodeSettings & {
  /** Turns of a batch, at least; at most MAX_ITEMS. */
  batchSize: number
  /** Turns of a batch, at most, where more are pending; at most MAX_ITEMS. Below `batchSize` it has no effect. */
  batchMax: number
  /** Milliseconds, from the first score, that turns wait for an unsampled or unscored candidate of their request. */
  groupWaitMs: number
  /** The largest share of a batch, 0…1, of one API key or one subject; at least one request. */
  keyShare: number
  subjectShare: number
  /** Milliseconds after its last turn for which a key is active. */
  keyHeardMs: number
  /** Weight of a turn's own score beside the outcome of its episode. */
  turnScoreWeight: number
}

const MAX_CANDIDATES = 128

/**
 * Turns that a decision examines for each turn of the batch, since many may wait for other candidates. They are divided
 * among the keys, and each key has at least this many, so that the turns of one key do not use up those of others.
 */
const EXAMINED_TURNS = 64

/** Sizes of a batch for which a decision examines turns; the last one is `batchSize`. */
const MOST_PASSES = 8

/** What `requestOf` gave in this decision, by the turn. It does not depend on the size of the batch. */
type KnownRequests = Map<string, ChosenTurn[]>

/** `task`: of the episode whose outcome is in the reward. */
export type ChosenTurn = Omit<BatchItem, 'baseline' | 'advantage'> & {
  group: string
  key: string | null
  task: string | null
}

/** The limit of one key's turns in a batch: at least an equal share, so that the active keys together can fill a batch. */
const keyLimit = ({ keys }: Pick<TrainerState, 'keys'>, options: ChoiceSettings, now: number): number => {
  let active = 0
  for (const [, at] of keys) if (at >= now - options.keyHeardMs) active += 1
  return active < 2 || options.keyShare === 1
    ? Infinity
    : Math.max(turnsOf(options.keyShare, options), Math.ceil(options.batchSize / active))
}
const turnsOf = (share: number, { batchSize }: ChoiceSettings): number => Math.max(1, Math.floor(share * batchSize))

/** `usable`: pending usable turns. `held`: those of them beyond the shares of their keys. */
export type UsableCount = { usable: number; held: number }

export const countUsable = (
  state: TrainerState,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
  episodes: readonly EpisodeGroup[] = episodeGroups(state, versions, options, now).ready,
): UsableCount => {
  const limit = keyLimit(state, options, now)
  let [usable, held] = [0, 0]
  const counts = new Map([...usableTurns(state, versions)].map(([key, { count }]) => [key, count]))
  for (const { key, turns } of episodes) counts.set(key, (counts.get(key) ?? 0) + turns.length)
  for (const [key, count] of counts) {
    usable += count
    if (key !== '') held += Math.max(0, count - limit)
  }
  return { usable, held }
}

/**
 * The turns of the next batch: as many as are usable, from `batchSize` to `batchMax`; fewer than `batchSize` if no batch can
 * be sealed. The shares of keys and subjects are those of the batch's own size. `versions`: the usable ones, newest first.
 */
export const choose = (
  state: TrainerState,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
): ChosenTurn[] => {
  const { ready } = episodeGroups(state, versions, options, now)
  const known: KnownRequests = new Map()
  let size = Math.max(options.batchSize, options.batchMax)
  for (let passes = 1; ;) {
    const sized = { ...options, batchSize: size }
    const { usable, held } = countUsable(state, versions, sized, now, ready)
    const enough = usable - held >= size
    // Turns that wait for other candidates, or exceed a share, may leave fewer than were counted: a smaller batch then.
    const requests = enough ? requestsOf(state, versions, sized, now, ready, known) : []
    const turns = requests.flat().length
    // In reverse, so that the newest rewards weigh most in the baselines.
    if (turns >= size || size <= options.batchSize) return requests.reverse().flat()
    if (enough) passes += 1
    const next = enough ? (passes < MOST_PASSES ? turns : 0) : usable - held
    size = Math.max(options.batchSize, Math.min(size - 1, next))
  }
}

/**
 * The requests and groups of episodes of a batch of `batchSize`, episodes first, then the newest turns: their version is
 * closest to the head. A group or a request that alone exceeds the share of its key is taken in parts.
 */
const requestsOf = (
  state: TrainerState,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
  whole: readonly EpisodeGroup[],
  known: KnownRequests,
): ChosenTurn[][] => {
  const limit = keyLimit(state, options, now)
  const ready = whole.flatMap((group) => (group.key === '' ? [group] : partsOf(group, limit)))
  const groups = new Map(ready.map((group) => [group.turns[0] ?? '', group]))
  const subjectLimit = turnsOf(options.subjectShare, options)
  const requests: ChosenTurn[][] = []
  let chosen = 0
  const examined = new Set<string>()
  const subjectCounts = new Map<string, number>()
  const beyondSubjectShare: { queue: KeyQueue; request: ChosenTurn[] }[] = []
  const beyondKeyShare: { queue: KeyQueue; request: ChosenTurn[] }[] = []

  const fits = (queue: KeyQueue, request: readonly ChosenTurn[]): boolean =>
    queue.key === '' || queue.count + request.length <= limit
  const take = (queue: KeyQueue, request: readonly ChosenTurn[]): void => {
    queue.count += request.length
    for (const { subject } of request) subjectCounts.set(subject, (subjectCounts.get(subject) ?? 0) + 1)
    requests.push([...request])
    chosen += request.length
  }
  /** Takes the queue's next request within all shares; false if it has none. */
  const takeNext = (queue: KeyQueue): boolean => {
    for (; queue.remaining > 0; queue.remaining -= 1) {
      const next = queue.turns.next()
      if (next.done) return false
      const group = groups.get(next.value)
      const chosenOfGroup = group
        ? group.turns.flatMap((id) => chosenTurn(state, id, versions, options) ?? [])
        : requestOf(state, next.value, versions, options, now, known)
      const request = chosenOfGroup
        .filter(({ turn }) => !examined.has(turn))
        .slice(0, queue.key === '' ? Infinity : limit)
      if (request.length === 0) continue
      for (const { turn } of request) examined.add(turn)
      if (!fits(queue, request)) {
        beyondKeyShare.push({ queue, request })
        return false
      }
      const count = subjectCounts.get(request[0]?.subject ?? '') ?? 0
      if (count === 0 || count + request.length <= subjectLimit) {
        take(queue, request)
        return true
      }
      beyondSubjectShare.push({ queue, request })
    }
    return false
  }

  const usable = withEpisodes(usableTurns(state, versions), ready)
  const remaining = Math.max(EXAMINED_TURNS, Math.ceil((EXAMINED_TURNS * options.batchSize) / usable.length))
  let queues = usable.map(([key, own]): KeyQueue => ({
    key,
    count: 0,
    remaining,
    turns: newest(own.queues, remaining),
  }))
  while (queues.length > 0 && chosen < options.batchSize) {
    queues = queues.filter((queue) => chosen < options.batchSize && takeNext(queue))
  }
  for (const { queue, request } of beyondSubjectShare) {
    if (chosen >= options.batchSize) break
    if (fits(queue, request)) take(queue, request)
    else beyondKeyShare.push({ queue, request })
  }
  // A request within the limit is not split. If the limit is not a multiple of its candidates, one request may exceed it.
  // Of a group of episodes the part that fits is taken.
  for (const { queue, request } of beyondKeyShare) {
    if (chosen >= options.batchSize || queue.count >= limit) continue
    take(queue, groups.has(request[0]?.turn ?? '') ? request.slice(0, limit - queue.count) : request)
  }
  return requests
}

/** The turns of one key. `count`: its turns in the batch. `remaining`: how many more of its turns may be examined. */
type KeyQueue = { readonly key: string; count: number; remaining: number; readonly turns: Iterator<string> }

/** The last `count` ids of each queue, newest first; a list as it is. `queues`: newest version first. */
const newest = function* (
  queues: readonly (Queue | readonly string[] | undefined)[],
  count: number,
): Generator<string> {
  for (const queue of queues) {
    if (!queue) continue
    if (!('size' in queue)) {
      yield* queue
      continue
    }
    if (queue.last) {
      yield* queue.last(count)
      continue
    }
    const last: string[] = []
    let skipped = queue.size - count
    for (const id of queue) if (--skipped < 0) last.push(id)
    yield* last.reverse()
  }
}

/** The queues of each key, in which the first turn of each group of episodes stands before single turns. */
const withEpisodes = (
  turns: ReadonlyMap<string, { queues: readonly (Queue | undefined)[] }>,
  groups: readonly EpisodeGroup[],
): [key: string, { queues: readonly (Queue | readonly string[] | undefined)[] }][] => {
  const byKey = Map.groupBy(groups, ({ key }) => key)
  return [...new Set([...byKey.keys(), ...turns.keys()])].map((key) => {
    const first = (byKey.get(key) ?? []).map(({ turns: [turn = ''] }) => turn)
    return [key, { queues: [first, ...(turns.get(key)?.queues ?? [])] }]
  })
}

/** The turn with its reward; null if no batch can use it. */
const chosenTurn = (
  state: TrainerState,
  id: string,
  versions: readonly number[],
  { turnScoreWeight }: ChoiceSettings,
): ChosenTurn | null => {
  const turn = state.turns.turns.get(id)
  const scored = state.scores.turns.get(id)
  if (!turn || !scored || !versions.includes(turn.version)) return null
  const outcome = outcomeOf(state, turn)
  if (scored.reward === null && !outcome) return null
  const { record, session, version, group, key } = turn
  const { subject, score, hint, reward: turnScore } = scored
  return {
    turn: id,
    record,
    session,
    score,
    subject,
    version,
    reward: combine(turnScore, outcome?.value ?? null, turnScoreWeight),
    hint,
    turnScore,
    outcome: outcome?.value ?? null,
    closing: outcome?.closing ?? null,
    group,
    key,
    task: outcome?.task ?? null,
  }
}

/** These turns as a batch takes them now; null if one of them has been taken or can no longer be used. */
export const chosenAgain = (
  state: TrainerState,
  turns: readonly string[],
  versions: readonly number[],
  options: ChoiceSettings,
): ChosenTurn[] | null => {
  const chosen = turns.flatMap((id) => (isUsable(state, id) && chosenTurn(state, id, versions, options)) || [])
  return chosen.length === turns.length ? chosen : null
}

/** The turn and the other candidates of its request that go into the same batch. */
const requestOf = (
  state: TrainerState,
  first: string,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
  known: KnownRequests,
): ChosenTurn[] => {
  const before = known.get(first)
  if (before) return before
  const ids = groupOf(state, first, options.groupWaitMs, now)
  const request = ids.flatMap((id) => chosenTurn(state, id, versions, options) ?? [])
  known.set(first, request)
  // A request that waits does so for each of its candidates.
  if (ids.length === 0) for (const one of candidatesOf(state, first)) known.set(one.turn, request)
  return request
}

const candidatesOf = ({ turns }: TrainerState, id: string): readonly TurnState[] => {
  const turn = turns.turns.get(id)
  return (turn && turns.sessions.get(turn.session)?.byGroup.get(turn.group)) ?? []
}

/** The turn and the background candidates of its request; none while one of them is unscored, for at most `waitMs`. */
const groupOf = (state: TrainerState, id: string, waitMs: number, now: number): string[] => {
  const turn = state.turns.turns.get(id)
  if (!turn || turn.candidates === 1) return [id]
  const group = candidatesOf(state, id)
  if (group.filter(({ shown }) => shown).length === turn.candidates) return [id]
  const scoredAt = group.flatMap((one) => state.scores.turns.get(one.turn)?.at ?? [])
  if (scoredAt.length < turn.candidates && now < Math.min(...scoredAt) + waitMs) return []
  // A candidate that was shown in an episode waits for its outcome.
  const usable = group.filter(
    (one) =>
      isPending(state, one.turn) &&
      unusable(state.policy, one) === null &&
      (one.turn === id || !isOfEpisode(state, one)),
  )
  return usable.map((one) => one.turn).slice(0, MAX_CANDIDATES)
}
