/** Whether a trainer selected, weighted and settled batches correctly, given what it had read. */
import type { BatchSealed, ScoresEvent, UpdateComputed, UpdateFailed } from '@instar/events'
import { headOf, spentIn, stepsBehind, type Batch, type Line } from './chains.ts'
import type { Decided } from './decision.ts'
import type { Fact } from './facts.ts'
import type { Past } from './past.ts'
import { rewardOf, type Score } from './scores.ts'
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
  items.some(({ advantage, reward, hint }) => Math.abs(advantage) > 1e-6 || (hint !== null && reward < 0))

export const rightBatch = (
  past: Past,
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
  rightItems(past, decided, event, line, batches, rules, says)
  rightValues(event, batches, (turn) => past.turn(turn)?.event.group, says)
}

const isSettled = (last: Batch | undefined, { verdicts }: Line): boolean =>
  !last ||
  last.outcome?.event.type === 'UpdateFailed' ||
  verdicts.some(({ event }) => event.update === last.outcome?.id)

/** `counted`: the record that first gave it a reward. */
type Waiting = { turn: Turn; score: Score; counted: Fact<ScoresEvent>; group: Waiting[] }

/** Scored turns of no batch yet, in the order in which they first got a reward. */
export const waitingFor = (past: Past, policy: string): Waiting[] => {
  const spent = new Set(spentIn(past.training(policy).batches))
  const waiting = [...past.scores(policy)]
    .flatMap(([id, score]): Waiting[] => {
      const turn = past.turn(id)
      const first = score.counted.find(({ event }) => event.type !== 'TurnSkipped')
      return !turn || !first || spent.has(id) || rewardOf(score) === null
        ? []
        : [{ turn, score, counted: first, group: [] }]
    })
    .sort((a, b) => a.counted.at - b.counted.at)
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

/** The reason why a turn is never trained on; null if it may be. */
export const whyNot = ({ event }: Turn, policy: string, line: Line, { staleness }: TrainingRules): string | null => {
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

const rightItems = (
  past: Past,
  decided: Decided,
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
    if (!one) return says(false, `batch ${number} takes ${item.turn}, which does not wait for one`)
    const {
      turn,
      score: {
        fact: { id, event: score },
      },
    } = one
    const why = whyNot(turn, policy, line, rules)
    says(why === null, `batch ${number} takes ${item.turn}, which is ${why}`)
    says(
      item.score === id && score.type !== 'TurnSkipped' && item.reward === score.reward,
      `batch ${number} gives ${item.turn} a reward that is not in force`,
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
  rightOrder(past, decided, event, [...waiting.values()], line, rules, says)
}

/**
 * Turns of the newest version first, and of one version the latest; as many as are usable, up to `batchMax`, and then in reverse; a turn is taken with the other candidates of its request, up to the size of the
 * batch. A key that has reached its share waits until all other keys were considered.
 */
const rightOrder = (
  past: Past,
  { now, read }: Decided,
  event: BatchSealed,
  waiting: readonly Waiting[],
  line: Line,
  rules: TrainingRules,
  says: Says,
): void => {
  const { number, policy, items } = event
  const since = ({ turn, counted }: Waiting): number =>
    read ? Math.max(read.get(turn.fact.id) ?? 0, read.get(counted.id) ?? 0) : 0
  const usable = waiting
    .filter((one) => whyNot(one.turn, policy, line, rules) === null && !isIncomplete(past, one, policy, now, rules))
    .sort((a, b) => b.turn.event.version - a.turn.event.version || since(b) - since(a))
  says(items.length >= rules.batchSize, `batch ${number} is sealed with ${items.length} turns`)
  if (!read) return
  const requests = [
    ...new Map(usable.map((one) => [one.group[0], one.group.filter((other) => usable.includes(other))])).values(),
  ]
  const wanted: Waiting[][] = []
  const size = Math.min(rules.batchMax, usable.length)
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

const EVERYONE = ''
type Rewarded = { subject: string; reward: number }
const means = (before: ReadonlyMap<string, number>, items: readonly Rewarded[]): Map<string, number> => {
  const begin = (subject: string): number => {
    const own = items.filter((item) => item.subject === subject)
    const known = before.get(subject)
    return (
      known ?? (2 * (before.get(EVERYONE) ?? 0) + own.reduce((sum, { reward }) => sum + reward, 0)) / (2 + own.length)
    )
  }
  return new Map(items.map(({ subject }) => [subject, begin(subject)]))
}
const moved = (mean: number, items: readonly Rewarded[]): number =>
  items.reduce((value, { reward }) => 0.9 * value + 0.1 * reward, mean)

/** The means of each subject after these batches, computed from their rewards alone. */
const meansAfter = (batches: readonly Pick<BatchSealed, 'items'>[]): Map<string, number> => {
  let after = new Map<string, number>()
  for (const { items } of batches) {
    const start = means(after, items)
    const next = new Map(after).set(EVERYONE, moved(after.get(EVERYONE) ?? 0, items))
    for (const [subject, mean] of start)
      next.set(
        subject,
        moved(
          mean,
          items.filter((item) => item.subject === subject),
        ),
      )
    after = next
  }
  return after
}

const rightValues = (
  event: BatchSealed,
  batches: readonly Batch[],
  groupOf: (turn: string) => string | undefined,
  says: Says,
): void => {
  const before = meansAfter(batches.map(({ sealed }) => sealed))
  const start = means(before, event.items)
  const near = (a: number, b: number): boolean => Math.abs(a - b) < 1e-9
  for (const { turn, subject, reward, baseline, advantage } of event.items) {
    const group = event.items.filter((other) => groupOf(other.turn) === groupOf(turn))
    const expected =
      group.length > 1 ? group.reduce((sum, one) => sum + one.reward, 0) / group.length : start.get(subject)!
    says(
      near(baseline, expected) && near(advantage, reward - expected),
      `batch ${event.number} compares ${turn} with ${baseline}, not ${expected}`,
    )
  }
  const after = meansAfter([...batches.map(({ sealed }) => sealed), event])
  for (const { subject, value } of event.baselines)
    says(
      near(value, after.get(subject)!),
      `batch ${event.number} leaves ${subject} at ${value}, not ${after.get(subject)}`,
    )
  says(
    [...start.keys(), EVERYONE].every((subject) => event.baselines.some((one) => one.subject === subject)),
    `batch ${event.number} forgets a subject`,
  )
}
