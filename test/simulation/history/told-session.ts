/**
 * A session as a trainer knows it that does not read `turns`: a turn by its scores, the running of an episode by its beginning on
 * `scores`, its end by its end there. What was read of `turns` before counts as it is. Whether scores say the same of a
 * turn as its record is checked where they are written (right-scores.ts).
 */
import type { EpisodeRecord, ScoresEvent } from '@instar/events'
import type { Fact } from './facts.ts'
import type { Score } from './scores.ts'
import type { Outcome, Session, Turn } from './session.ts'

/** `facts`: all that scores say of the session, those from place `from` on without `turns`. `whole`: the session to its end. */
export const toldOf = (
  before: Session,
  whole: Session,
  facts: readonly Fact<ScoresEvent | EpisodeRecord>[],
  from: number,
  scores: ReadonlyMap<string, Score>,
): Session => {
  const known: Turn[] = [...before.turns]
  const isKnown = (id: string): boolean => known.some(({ event }) => event.turn === id)
  const ids = (): string[] => known.map(({ event }) => event.turn)
  const discarded = new Map<string, string>()
  const [scored, covered, awaited] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const closings = [...before.closings]
  const isCovered = (id: string): boolean =>
    covered.has(id) || before.turns.some(({ event, outcome: covers }) => event.turn === id && covers !== null)
  let order = ids()
  let { isClosed, outcome } = before
  let isTold = false
  let [begunAs, endedAs]: [string, string | null] = ['', null]
  for (const fact of facts) {
    const { event, at, id } = fact
    if (event.type === 'EpisodeBegun') {
      begunAs ||= event.task
      isTold ||= at >= from && !isClosed
    } else if (event.type === 'EpisodeEnded') {
      const isNews = !isClosed || (event.outcome !== null && outcome === null)
      if (at < from || !(isNews || (event.outcome !== null && outcome?.id === event.closing))) continue
      isClosed = true
      isTold = true
      if (event.outcome !== null && outcome === null) {
        outcome = { value: event.outcome, id: event.closing, at: event.endedAt! } satisfies Outcome
        endedAs = event.task
      }
      const news = event.turns.filter((turn) => isKnown(turn) && !isCovered(turn))
      for (const turn of event.turns) {
        covered.add(turn)
        if (!scored.has(turn)) awaited.add(turn)
      }
      if (isNews) closings.push({ id, at })
      order = isNews ? ids() : [...order.filter((turn) => !news.includes(turn)), ...news]
    } else if (scores.get(event.turn)!.counted.includes(fact as Fact<ScoresEvent>)) {
      scored.add(event.turn)
      awaited.delete(event.turn)
      if (!isKnown(event.turn)) {
        known.push(...whole.turns.filter((turn) => turn.event.turn === event.turn))
        order.push(event.turn)
        const { task = null, shown = false, unusable = '' } = event.of ?? {}
        isTold ||= task !== null && shown && unusable === null && !isClosed
      }
      if (event.of?.unusable === 'discarded') discarded.set(event.turn, id)
    }
  }
  const turns = known.map((turn): Turn => {
    const { turn: id } = turn.event
    const own = before.turns.includes(turn) ? turn : { ...turn, outcome: null, discardedBy: null }
    return {
      ...own,
      fact: { ...turn.fact, at: order.indexOf(id) },
      outcome: own.outcome ?? (covered.has(id) ? outcome : null),
      discardedBy: own.discardedBy ?? discarded.get(id) ?? null,
    }
  })
  const named = turns.find(({ event }) => event.task)?.event.task ?? ''
  return {
    ...before,
    turns,
    outcome,
    task: endedAs ?? ((outcome === null && begunAs) || named),
    begunAt: whole.begunAt,
    isClosed,
    closings,
    isTold,
    awaited: [...awaited],
  }
}
