/** Whether a trainer selected, weighted and settled batches correctly, given what it had read. */
import type { BatchSealed, ScoresEvent, UpdateComputed, UpdateFailed } from '@instar/events'
import { placeOf } from '../sim-log.ts'
import { headOf, spentIn, stepsBehind, type Batch, type Line } from './chains.ts'
import type { Decided } from './decision.ts'
import { isOfEpisode, readyGroups } from './episodes.ts'
import type { Fact } from './facts.ts'
import type { Past } from './past.ts'
import { rewardOf, type Score } from './scores.ts'
import { rightValues } from './right-values.ts'
import type { Turn } from './session.ts'

export type TrainingRules = {
  batchSize: number
  batchMax: number
  staleness: number
  groupWaitMs: number
  keyShare: number
  subjectShare: number
  keyHeardMs: number
  taskEpisodes: number
  taskWaitMs: number
  turnScoreWeight: number
}
type Says = (holds: boolean, problem: string) => void

export const rightOutcome = (past: Past, event: UpdateComputed | UpdateFailed, says: Says): void => {
  const { batches, tip } = past.training(event.policy)
  const last = batches.at(-1)
  says(event.prev === tip, `${event.type} does not follow what its trainer had read`)
  says(
    last?.fact.id === event.batch && last.outcome === null,
    `${event.type} of a batch that is not the one to compute`,
  )
  says(event.number === last?.sealed.number, `${event.type} of batch ${last?.sealed.number} calls it ${event.number}`)
  if (last)
    says(
      (event.type === 'UpdateFailed' && event.reason === 'no_signal') === !hasSignal(last.sealed),
      `batch ${event.number} has ${hasSignal(last.sealed) ? 'a' : 'no'} signal, and its outcome is ${event.type}`,
    )
}

const hasSignal = ({ items }: BatchSealed): boolean =>
  items.some(
    ({ advantage, reward, turnScore, outcome, hint }) =>
      Math.abs(advantage) > 1e-6 || (hint !== null && ((outcome ?? null) === null ? reward : (turnScore ?? 0)) < 0),
  )

/** `then`: what had been read when the batch was chosen ahead, on the candidate before it; null: it was chosen when it was sealed. */
export const rightBatch = (
  past: Past,
  then: Past | null,
  decided: Decided,
  event: BatchSealed,
  rules: TrainingRules,
  says: Says,
): void => {
  const { share } = decided
  const line = past.line(event.policy)
  const { batches, tip } = past.training(event.policy)
  const head = headOf(line)
  says(share.has(0), `seals batch ${event.number}, which is another's to seal`)
  says(
    line.started?.mode === 'live' && !line.frozen,
    `seals batch ${event.number} while learning is ${line.frozen ? 'frozen' : 'not live'}`,
  )
  says(isSettled(batches.at(-1), line), `seals batch ${event.number} before the one before it is settled`)
  says(
    event.prev === tip && event.number === batches.length + 1,
    `seals batch ${event.number} behind ${batches.length}`,
  )
  const { version, adapter, state } = event.parent
  says(
    version === head?.number && adapter === head.adapter && state === head.state,
    `seals batch ${event.number} on version ${version}, the head is ${line.head}`,
  )
  rightItems(past, event, line, batches, rules, says)
  if (then === null) rightOrder(past, decided, event, line, rules, says)
  else rightAhead(past, then, decided, event, rules, says)
  rightValues(past, event, batches, rules, says)
}

const isSettled = (last: Batch | undefined, { verdicts }: Line): boolean =>
  !last ||
  last.outcome?.event.type === 'UpdateFailed' ||
  verdicts.some(({ event }) => event.update === last.outcome?.id)

/** `counted`: the record that first gave it a reward; null: none did. */
type Waiting = { turn: Turn; score: Score | null; counted: Fact<ScoresEvent> | null; group: Waiting[] }

/** Turns of no batch yet: those with a reward, and those of episodes, which may get one from the outcome alone. */
export const waitingFor = (past: Past, policy: string): Waiting[] => {
  const spent = new Set(spentIn(past.training(policy).batches))
  const scores = past.scores(policy)
  const waiting = past.turns().flatMap((turn): Waiting[] => {
    const score = scores.get(turn.event.turn) ?? null
    const counted = score?.counted.find(({ event }) => event.type !== 'TurnSkipped') ?? null
    const isRewarded = score !== null && rewardOf(score) !== null
    const mayBeRewarded = isUsable(turn, policy) && isOfEpisode(past.session(turn.event.session), turn)
    return spent.has(turn.event.turn) || !(isRewarded || mayBeRewarded) ? [] : [{ turn, score, counted, group: [] }]
  })
  const inLogOrder = (a: Waiting, b: Waiting): number => a.turn.fact.at - b.turn.fact.at
  for (const one of waiting) {
    const beside = waiting.filter(({ turn }) => turn.event.group === one.turn.event.group)
    one.group = inBackground(past, one.turn) ? beside.sort(inLogOrder) : [one]
  }
  return waiting
}

const beside = (past: Past, { event }: Turn): Turn[] =>
  past.session(event.session).turns.filter((other) => other.event.group === event.group)
const inBackground = (past: Past, turn: Turn): boolean =>
  beside(past, turn).filter(({ shown }) => shown).length < turn.event.candidates

const isUsable = ({ event, discardedBy }: Turn, policy: string): boolean =>
  event.type !== 'TurnAborted' && event.trainable && event.policy === policy && discardedBy === null

/** The reason why a turn is never trained on; null if it may be. */
export const whyNot = (
  { event, discardedBy }: Turn,
  policy: string,
  line: Line,
  { staleness }: TrainingRules,
): string | null => {
  if (discardedBy !== null) return 'discarded'
  if (event.type === 'TurnAborted' || !event.trainable || event.policy !== policy) return event.reason ?? 'aborted'
  const steps = stepsBehind(line, event.version)
  return steps === null ? 'not_on_lineage' : steps > staleness ? 'stale' : null
}

/** Whether candidates of the turn's request are still to be sampled or scored. */
export const isIncomplete = (
  past: Past,
  { turn }: Waiting,
  policy: string,
  now: number,
  { groupWaitMs }: TrainingRules,
): boolean => {
  const { candidates } = turn.event
  if (candidates === 1 || !inBackground(past, turn)) return false
  const scores = beside(past, turn).flatMap(({ event }) => past.scores(policy).get(event.turn) ?? [])
  return scores.length < candidates && now < Math.min(...scores.map(({ first }) => first.event.at)) + groupWaitMs
}

/** What may be trained on now: groups of episodes, which are taken whole, and other turns. */
export const usableOf = (
  past: Past,
  waiting: readonly Waiting[],
  policy: string,
  line: Line,
  now: number,
  rules: TrainingRules,
): { groups: Waiting[][] | null; others: Waiting[] } => ({
  groups: readyGroups(
    past,
    waiting.filter(({ turn }) => isUsable(turn, policy)),
    line,
    now,
    rules,
  ),
  others: waiting.filter(
    (one) =>
      !isOfEpisode(past.session(one.turn.event.session), one.turn) &&
      whyNot(one.turn, policy, line, rules) === null &&
      !isIncomplete(past, one, policy, now, rules),
  ),
})

/** Chosen as if the candidate had been the head, which it has become. */
const rightAhead = (
  past: Past,
  then: Past,
  decided: Decided,
  event: BatchSealed,
  rules: TrainingRules,
  says: Says,
): void => {
  const { number, policy, parent } = event
  const line = then.line(policy)
  const candidate = then.training(policy).batches.at(-1)?.outcome
  const isCandidate = candidate?.event.type === 'UpdateComputed' && headOf(past.line(policy))?.update === candidate.id
  says(isCandidate, `batch ${number} was chosen for another parent than ${parent.version}`)
  if (!isCandidate) return
  const head = { ...headOf(past.line(policy))!, parent: line.head }
  const ahead = { ...line, head: head.number, versions: [...line.versions, head] }
  rightOrder(then, { ...decided, now: decided.note.chosen!.now }, event, ahead, rules, says)
}

const rightItems = (
  past: Past,
  event: BatchSealed,
  line: Line,
  batches: readonly Batch[],
  rules: TrainingRules,
  says: Says,
): void => {
  const { policy, number } = event
  const waiting = new Map(waitingFor(past, policy).map((one) => [one.turn.event.turn, one]))
  const spent = new Set(spentIn(batches))
  const taken = [...event.items, ...event.dropped].map(({ turn }) => turn)
  for (const turn of taken) says(!spent.has(turn), `batch ${number} takes ${turn}, which an earlier one took`)
  says(new Set(taken).size === taken.length, `batch ${number} takes a turn twice`)
  for (const [turn, one] of waiting) {
    const why = whyNot(one.turn, policy, line, rules)
    says(
      why === null || event.dropped.some((drop) => drop.turn === turn),
      `batch ${number} leaves ${turn}, which is ${why}`,
    )
  }
  for (const { turn, reason } of event.dropped) {
    const one = waiting.get(turn)
    says(
      one !== undefined && whyNot(one.turn, policy, line, rules) === reason,
      `batch ${number} drops ${turn} as ${reason}`,
    )
  }
  for (const item of event.items) {
    const one = waiting.get(item.turn)
    if (!one?.score) return says(false, `batch ${number} takes ${item.turn}, which does not wait for one`)
    const {
      turn,
      score: {
        fact: { id, event: score },
      },
    } = one
    const { outcome } = turn
    const own = score.type === 'TurnSkipped' ? null : score.reward
    const reward = outcome === null ? own : outcome.value + rules.turnScoreWeight * (own ?? 0)
    const why = whyNot(turn, policy, line, rules)
    says(why === null, `batch ${number} takes ${item.turn}, which is ${why}`)
    says(
      item.score === id && item.reward === reward,
      `batch ${number} gives ${item.turn} a reward that is not in force`,
    )
    says(
      item.turnScore === own && item.outcome === (outcome?.value ?? null) && item.closing === (outcome?.id ?? null),
      `batch ${number} records of ${item.turn} another score or outcome than the log`,
    )
    says(
      JSON.stringify(item.hint) === JSON.stringify(score.type === 'TurnSkipped' ? null : score.hint),
      `batch ${number} gives ${item.turn} another hint than its score`,
    )
    says(
      item.record === turn.fact.id && item.version === turn.event.version && item.subject === turn.event.subject,
      `batch ${number} names ${item.turn} otherwise than the log`,
    )
  }
}

/**
 * Turns of the newest version first, and of one version the latest; as many as are usable, up to `batchMax`, and then in reverse; a turn is taken with the other candidates of its request, up to the size of the
 * batch. A key that has reached its share waits until all other keys were considered.
 */
const rightOrder = (
  past: Past,
  { now, read }: Decided,
  event: BatchSealed,
  line: Line,
  rules: TrainingRules,
  says: Says,
): void => {
  const { number, policy, items } = event
  // The end of a session with a task puts its turns behind all others, in their order, also where it is on the log twice.
  const ends = ({ event }: Turn): string[] =>
    (event.task ?? null) === null ? [] : past.session(event.session).closings.map(({ id, at }) => placeOf(id, at))
  const since = ({ turn, counted }: Waiting): number =>
    read ? Math.max(0, ...[turn.fact.id, counted?.id ?? '', ...ends(turn)].map((id) => read.get(id) ?? 0)) : 0
  const { groups, others } = usableOf(past, waitingFor(past, policy), policy, line, now, rules)
  const singles = others.sort(
    (a, b) => b.turn.event.version - a.turn.event.version || since(b) - since(a) || b.turn.fact.at - a.turn.fact.at,
  )
  says(items.length >= rules.batchSize, `batch ${number} is sealed with ${items.length} turns`)
  if (!read || groups === null) return
  const requests = [
    ...groups,
    ...new Map(singles.map((one) => [one.group[0], one.group.filter((other) => singles.includes(other))])).values(),
  ]
  const wanted: Waiting[][] = []
  const size = Math.min(rules.batchMax, requests.flat().length)
  const share = Math.max(1, Math.floor(rules.subjectShare * size))
  const take =
    (mayTake: (own: number) => boolean) =>
    (request: Waiting[]): boolean => {
      const own = wanted.flat().filter(({ turn }) => turn.event.subject === request[0]!.turn.event.subject).length
      const taken = wanted.flat().length < size && (own === 0 || mayTake(own + request.length))
      if (taken) wanted.push(request)
      return !taken
    }
  requests.filter(take((most) => most <= share)).filter(take(() => true))
  const [is, should] = [
    items.map(({ turn }) => turn).join(),
    wanted
      .reverse()
      .flat()
      .map(({ turn }) => turn.event.turn)
      .join(),
  ]
  says(is === should, `batch ${number} takes ${is}, it is the turn of ${should}`)
}
