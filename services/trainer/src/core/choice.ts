/**
 * Which usable turns a batch takes. API keys take turns, one request each, so that nobody waits behind somebody who
 * says more. While at least two keys are heard, none gets more than its share of a batch, and a batch that others do
 * not fill waits: a key that speaks alone for a night must not move the model for all. One key alone, or none (a
 * person on a machine of their own), fills a batch alone. A subject is chosen by whoever asks, so its share is no
 * limit but an order: beyond it others go first.
 */
import type { BatchItem } from '@instar/events'
import { unusable, usableTurns, waits } from './pending.ts'
import type { TrainerState } from './state.ts'

export type ChoiceSettings = {
  /** Turns of a batch; at most MOST_ITEMS. */
  batchSize: number
  /** How long turns wait for a candidate of their request that is to be sampled or judged, ms from the first score. */
  groupWaitMs: number
  /** The most of a batch that one API key, or one subject, may have: 0…1, and always one request. */
  keyShare: number
  subjectShare: number
  /** A key counts as active for this long after its last turn, ms. */
  keyHeardMs: number
}

const MOST_CANDIDATES = 128

/**
 * Turns that a decision looks at to fill a batch, for each turn of it: many may wait for candidates beside them. Each
 * key has its part of them, and this many at least: what one key has waiting uses up nobody else's.
 */
const LOOKS = 64

type Chosen = Omit<BatchItem, 'baseline' | 'advantage'> & { group: string; key: string | null }

/** The turns of a batch that one key may have: at least an even part, or the active keys could not fill a batch. */
const shareOfKey = ({ keys }: Pick<TrainerState, 'keys'>, options: ChoiceSettings, now: number): number => {
  let heard = 0
  for (const [, at] of keys) if (at >= now - options.keyHeardMs) heard += 1
  return heard < 2 ? Infinity : Math.max(shareOf(options.keyShare, options), Math.ceil(options.batchSize / heard))
}
const shareOf = (share: number, { batchSize }: ChoiceSettings): number => Math.max(1, Math.floor(share * batchSize))

/** Waiting usable turns, and how many of them exceed the shares of their keys. */
export type UsableCount = { usable: number; held: number }

export const countUsable = (
  state: TrainerState,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
): UsableCount => {
  const most = shareOfKey(state, options, now)
  let [usable, held] = [0, 0]
  for (const [key, { count }] of usableTurns(state, versions)) {
    usable += count
    if (key !== '') held += Math.max(0, count - most)
  }
  return { usable, held }
}

/** Those of the oldest version first: they are the next to be of no use. `versions`: oldest first. */
export const choose = (
  state: TrainerState,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
): Chosen[] => {
  const most = shareOfKey(state, options, now)
  const mostOfSubject = shareOf(options.subjectShare, options)
  const chosen: Chosen[] = []
  const taken = new Set<string>()
  const ofSubject = new Map<string, number>()
  const later: { line: KeyQueue; request: Chosen[] }[] = []
  /** A line's next request where it has room for a part of it. */
  const over: { line: KeyQueue; request: Chosen[] }[] = []

  const fits = (line: KeyQueue, request: readonly Chosen[]): boolean =>
    line.key === '' || line.count === 0 || line.count + request.length <= most
  const take = (line: KeyQueue, request: readonly Chosen[]): void => {
    line.count += request.length
    for (const { subject } of request) ofSubject.set(subject, (ofSubject.get(subject) ?? 0) + 1)
    chosen.push(...request)
  }
  /** The next request of a line that is to be taken now; false when there is none. */
  const takeNext = (line: KeyQueue): boolean => {
    for (; line.looks > 0; line.looks -= 1) {
      const next = line.turns.next()
      if (next.done) return false
      const request = requestOf(state, next.value, versions, options, now).filter(({ turn }) => !taken.has(turn))
      if (request.length === 0) continue
      for (const { turn } of request) taken.add(turn)
      if (!fits(line, request)) {
        over.push({ line, request })
        return false
      }
      const own = ofSubject.get(request[0]?.subject ?? '') ?? 0
      if (own === 0 || own + request.length <= mostOfSubject) {
        take(line, request)
        return true
      }
      later.push({ line, request })
    }
    return false
  }

  const usable = [...usableTurns(state, versions)]
  const looks = Math.max(LOOKS, Math.ceil((LOOKS * options.batchSize) / usable.length))
  let lines = usable.map(([key, { queues }]): KeyQueue => ({ key, count: 0, looks, turns: all(queues) }))
  while (lines.length > 0 && chosen.length < options.batchSize) {
    lines = lines.filter((line) => chosen.length < options.batchSize && takeNext(line))
  }
  for (const { line, request } of later) {
    if (chosen.length >= options.batchSize) break
    if (fits(line, request)) take(line, request)
    else over.push({ line, request })
  }
  // A request goes whole: where shares are no multiple of its candidates, no batch would be filled without.
  for (const { line, request } of over) {
    if (chosen.length < options.batchSize && line.count < most) take(line, request)
  }
  return chosen
}

/** The turns of one key. `count`: how many of them the batch has. `looks`: at how many more it may look. */
type KeyQueue = { readonly key: string; count: number; looks: number; readonly turns: Iterator<string> }

const all = function* (queues: readonly (Iterable<string> | undefined)[]): Generator<string> {
  for (const queue of queues) yield* queue ?? []
}

/** The turn, with those of its request that go with it. */
const requestOf = (
  state: TrainerState,
  first: string,
  versions: readonly number[],
  options: ChoiceSettings,
  now: number,
): Chosen[] =>
  together(state, first, options.groupWaitMs, now).flatMap((id) => {
    const turn = state.turns.turns.get(id)
    const score = state.scores.turns.get(id)
    if (!turn || !score || score.reward === null || !versions.includes(turn.version)) return []
    const { record, session, version, group, key } = turn
    const { subject, reward, hint } = score
    return [{ turn: id, record, session, score: score.score, subject, version, reward, hint, group, key }]
  })

/** The turn and, where candidates of its request are sampled in the background, those; nothing while one is to come. */
const together = (state: TrainerState, id: string, waitMs: number, now: number): string[] => {
  const turn = state.turns.turns.get(id)
  if (!turn || turn.candidates === 1) return [id]
  const group = (state.turns.sessions.get(turn.session)?.turns ?? []).filter((one) => one.group === turn.group)
  if (group.filter(({ shown }) => shown).length === turn.candidates) return [id]
  const scoredAt = group.flatMap((one) => state.scores.turns.get(one.turn)?.at ?? [])
  if (scoredAt.length < turn.candidates && now < Math.min(...scoredAt) + waitMs) return []
  const usable = group.filter((one) => waits(state, one.turn) && unusable(state.policy, one) === null)
  return usable.map((one) => one.turn).slice(0, MOST_CANDIDATES)
}
