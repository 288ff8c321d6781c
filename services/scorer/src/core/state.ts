/**
 * Everything the scorer knows: the folds of `turns` and `scores`, side by side, and caches of them. `work` is
 * this process's own affair (what it has asked for and not seen come back): `forgetWork` of a snapshot.
 */
import {
  foldScores, foldTurns, initialScores, initialTurns,
  type Event, type Logged, type Outcome, type ScoresEvent, type ScoreState, type ScoresState, type TurnsEvent, type TurnsState, type Written,
} from '@instar/events'

export type Work =
  /** Judges were asked about `cause`; an answer with another `ask` is too late. */
  | { step: 'judging'; ask: number; cause: string }
  /** The record with this id was appended and has not been read back. */
  | { step: 'appended'; record: string }

export type ScorerState = {
  turns: TurnsState
  /** One fold per key: a branch that scores the same turns says nothing about its trunk. */
  scores: Map<string, ScoresState>
  /** Turns of which something was read since `decide` looked at them. */
  touched: Set<string>
  /** Turns that need a score and were others' to score when `decide` looked at them. */
  elsewhere: Set<string>
  /** Words that came with explicit feedback, by feedback id, until it is scored. */
  comments: Map<string, Written>
  work: Map<string, Work>
  /** Session → record id of the SessionClosed that has not been read back. */
  closing: Map<string, string>
  asked: number
}

export const initialState = (): ScorerState => ({
  turns: initialTurns(), scores: new Map(), touched: new Set(), elsewhere: new Set(), comments: new Map(), work: new Map(), closing: new Map(), asked: 0,
})

/** After a restart from a snapshot: what an earlier life asked for will not come back to this one, so it is looked at again. */
export const forgetWork = (state: ScorerState): void => {
  for (const turn of state.work.keys()) state.touched.add(turn)
  state.work.clear()
  state.closing.clear()
}

/** Null for a topic that the scorer does not follow. */
export const evolve = (state: ScorerState, logged: Logged<Event>): Outcome | null => {
  switch (logged.topic) {
    case 'turns': return evolveTurns(state, logged as Logged<TurnsEvent>)
    case 'scores': return evolveScores(state, logged as Logged<ScoresEvent>)
    case 'updates':
    case 'weights':
    case 'blobs':
      return null
  }
}

export const scoreOf = (state: ScorerState, turn: string): ScoreState | undefined => {
  const policy = state.turns.turns.get(turn)?.policy
  return policy === undefined ? undefined : state.scores.get(policy)?.turns.get(turn)
}

const evolveTurns = (state: ScorerState, logged: Logged<TurnsEvent>): Outcome => {
  const { event } = logged
  const outcome = foldTurns(state.turns, logged)
  if (event.type === 'SessionClosed' && state.closing.get(event.session) === logged.id) state.closing.delete(event.session)
  if (!outcome.counted) return outcome
  switch (event.type) {
    case 'TurnCaptured':
    case 'TurnAborted': {
      const follows = state.turns.turns.get(event.turn)?.follows
      if (follows) state.touched.add(follows)
      break
    }
    case 'FeedbackGiven': {
      const turn = event.turn ?? state.turns.sessions.get(event.session)?.turns.at(-1)?.turn
      if (turn) state.touched.add(turn)
      if (event.comment) state.comments.set(event.id, event.comment)
      break
    }
    case 'SessionClosed':
      for (const turn of event.open) state.touched.add(turn)
      break
  }
  return outcome
}

const evolveScores = (state: ScorerState, logged: Logged<ScoresEvent>): Outcome => {
  const { event } = logged
  let scores = state.scores.get(event.policy)
  if (!scores) state.scores.set(event.policy, scores = initialScores())
  const outcome = foldScores(scores, logged)
  const work = state.work.get(event.turn)
  if (work?.step === 'appended' && work.record === logged.id) state.work.delete(event.turn)
  // A loser of a race looks again: feedback may still outrank what won.
  state.touched.add(event.turn)
  return outcome
}
