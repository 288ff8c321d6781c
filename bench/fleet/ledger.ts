/** What the log has of the requests that were answered: lost and doubled turns, scores, and recognised continuations. */
import type { Event } from '@instar/events'
import type { GapName } from './day.ts'

/** A request that was answered, with the headers of its answer. `follows`: the answer that it continues. */
export type Answered = {
  turn: string
  session: string
  follows: string | null
  gap: GapName | null
  named: boolean
}

export type Ledger = {
  /** Turn → sessions of its records `TurnCaptured`; more than one is a turn doubled. */
  captured: Map<string, string[]>
  /** Turn → number of its records `TurnScored` and `TurnSkipped`. */
  scores: Map<string, number>
  aborted: number
}

export const initialLedger = (): Ledger => ({ captured: new Map(), scores: new Map(), aborted: 0 })

export const enter = (ledger: Ledger, event: Event): void => {
  if (event.type === 'TurnCaptured') {
    const sessions = ledger.captured.get(event.turn)
    if (sessions) sessions.push(event.session)
    else ledger.captured.set(event.turn, [event.session])
  } else if (event.type === 'TurnScored' || event.type === 'TurnSkipped')
    ledger.scores.set(event.turn, (ledger.scores.get(event.turn) ?? 0) + 1)
  else if (event.type === 'TurnAborted') ledger.aborted += 1
}

/** Whether each turn on the log has a score, and there are at least as many as `turns`. */
export const isScored = ({ captured, scores }: Ledger, turns: number): boolean =>
  captured.size >= turns && scores.size >= captured.size

/** `recalled`: continuations whose record is in the session of the turn that they continue, of all. */
export type Recall = { what: string; continuations: number; recalled: number; recall: number }
export type Counts = {
  answered: number
  /** Answered, without a record. */
  lost: number
  /** Records of a turn after its first one. */
  doubled: number
  /** Records of turns that no answer named. */
  unknown: number
  aborted: number
  unscored: number
  /** Scores of a turn after its first one, which its fold ignores. */
  scoredAgain: number
}

export const countsOf = ({ captured, scores, aborted }: Ledger, answered: readonly Answered[]): Counts => {
  const said = new Set(answered.map(({ turn }) => turn))
  const records = [...captured.values()].reduce((sum, sessions) => sum + sessions.length, 0)
  return {
    answered: answered.length,
    lost: answered.filter(({ turn }) => !captured.has(turn)).length,
    doubled: records - captured.size + (answered.length - said.size),
    unknown: [...captured.keys()].filter((turn) => !said.has(turn)).length,
    aborted,
    unscored: [...captured.keys()].filter((turn) => !scores.has(turn)).length,
    scoredAgain: [...scores.values()].reduce((sum, count) => sum + count - 1, 0),
  }
}

/** By the gap before the continuation, and whether the conversation named its session; kinds without any are left out. */
export const recallOf = ({ captured }: Ledger, answered: readonly Answered[], gaps: readonly GapName[]): Recall[] => {
  const sessionOf = (turn: string | null): string | undefined => (turn === null ? undefined : captured.get(turn)?.[0])
  return [false, true].flatMap((named) =>
    gaps.flatMap((gap) => {
      const asked = answered.filter((one) => one.follows !== null && one.gap === gap && one.named === named)
      if (asked.length === 0) return []
      const recalled = asked.filter(({ turn, follows }) => {
        const session = sessionOf(turn)
        return session !== undefined && session === sessionOf(follows)
      }).length
      return [
        {
          what: `${named ? 'named' : 'unnamed'}, ${gap}`,
          continuations: asked.length,
          recalled,
          recall: recalled / asked.length,
        },
      ]
    }),
  )
}
