/** Whether a judge is to be asked about a turn, given the scored turns that wait for a batch. */
import type { BatchSealed } from '@instar/events'
import { slot, type Ends } from '../sim-log.ts'
import { stepsBehind } from './chains.ts'
import type { Past } from './past.ts'
import type { ScoringRules } from './right-scores.ts'
import type { Turn } from './session.ts'

type Waiting = { turn: string; version: number; key: string; subject: string }

/** `begun`: where the scorer's life began to read. It does not remember what it had read before. */
export const isWanted = (
  past: Past,
  begun: Ends,
  { event, outcome }: Turn,
  { waiting: most, staleness }: ScoringRules,
): boolean => {
  const { policy, version, task = null, group, turn, session } = event
  const line = past.line(policy)
  if (most === null || task !== null || outcome !== null || line.started?.mode !== 'live') return true
  if (!line.versions.some(({ number }) => number === version)) return true
  const taken = takenIn(past, begun, policy)
  if (line.verdicts.length === 0 && taken.size === 0) return true
  const waiting = waitingIn(past, begun, policy, taken)
  const beside = past.session(session).turns.filter((one) => one.event.group === group && one.event.turn !== turn)
  if (beside.some((one) => one.outcome !== null || waiting.some((other) => other.turn === one.event.turn))) return true
  const usable = waiting.filter((one) => {
    const steps = stepsBehind(line, one.version)
    return steps !== null && (staleness === null || steps <= staleness)
  })
  if (2 * usable.length < most) return true
  const name = usable.length < most ? 'subject' : 'key'
  const own = name === 'subject' ? event.subject : (event.key ?? '')
  const names = new Set([own, ...usable.map((one) => one[name])])
  return usable.filter((one) => one[name] === own).length < Math.max(1, Math.floor(most / names.size))
}

type Topic = 'scores' | 'updates'
const isNew = (begun: Ends, topic: Topic, { partition, at }: { partition: number; at: number }): boolean =>
  at >= (begun.get(slot(topic, partition)) ?? 0)

/** Turns of the batches since `begun`. */
const takenIn = (past: Past, begun: Ends, policy: string): Set<string> => {
  const sealed = past
    .facts('updates', policy)
    .filter((fact) => isNew(begun, 'updates', fact) && fact.event.type === 'BatchSealed')
  return new Set(
    sealed.flatMap(({ event }) =>
      [...(event as BatchSealed).items, ...(event as BatchSealed).dropped].map(({ turn }) => turn),
    ),
  )
}

/** Turns with a first score that no batch has and no outcome covers, of the records since `begun`. */
const waitingIn = (past: Past, begun: Ends, policy: string, taken: ReadonlySet<string>): Waiting[] =>
  [...past.scores(policy)].flatMap(([turn, { counted }]) => {
    if (taken.has(turn) || (past.turn(turn)?.outcome ?? null) !== null) return []
    let waits: Waiting | null = null
    for (const { event } of counted.filter((fact) => isNew(begun, 'scores', fact))) {
      if (event.type === 'TurnSkipped' || event.of?.unusable !== null || event.of.task !== null) waits = null
      else if (event.type === 'TurnScored')
        waits = { turn, version: event.version, key: event.of.key ?? '', subject: event.subject }
    }
    return waits ? [waits] : []
  })
