/**
 * The rules that keep the folds consistent, and the effect of leaving one out. Each is switched off by changing the
 * input of the real folds, or a process's actions, as a plausible design would.
 */
import {
  openTurns,
  updateLine,
  weightLine,
  type Event,
  type Logged,
  type ScoresState,
  type SessionClosed,
  type TurnsState,
  type UpdatesState,
  type WeightsState,
} from '@instar/events'

export const RULES = {
  ownKey:
    'Whether a record counts depends on its own topic and key alone. Off: a batch counts only if its parent is the head that this reader has read.',
  chain: 'A record of a chain counts iff its `prev` is the tip. Off: whatever is read counts.',
  named:
    'A batch names the scores that it uses. Off: it names turns, and the arithmetic takes the scores as they are by then.',
  product: 'Spent and scored are separate folds. Off: a score puts its turn back among those that wait.',
  readBack: 'An own record counts when it is read back in order. Off: it counts when it is acknowledged.',
  adopt: "The loser of a race adopts the winner's bytes. Off: it goes on with its own.",
  register: 'One score per turn, whoever the judge. Off: one per turn and judge.',
  openList: 'A closing closes the turns that it lists. Off: it closes what is open.',
  execId: "A turn's id is minted at admission. Off: it is the digest of the request and the attempt.",
  vector: 'Where a snapshot is taken is part of it. Off: reading goes on where the group committed.',
  handover: 'Who is given a partition looks again at what is unfinished there. Off: only at what is read from then on.',
  lines: "A branch is a key of its own. Off: its records are read as its trunk's.",
} as const

export type Rule = keyof typeof RULES
export const RULE_NAMES = Object.keys(RULES) as Rule[]

export type Folds = {
  turns?: TurnsState
  scores?: (policy: string) => ScoresState | undefined
  updates?: UpdatesState
  weights?: WeightsState
}

/** The record that a fold gets instead; null: none. */
export const bend = (off: Rule | null, folds: Folds, logged: Logged<Event>): Logged<Event> | null => {
  const { event } = logged
  switch (off) {
    case 'lines':
      return 'policy' in event && event.policy.includes('~')
        ? { ...logged, key: trunk(event.policy), event: { ...event, policy: trunk(event.policy) } }
        : logged
    case 'chain': {
      if (!('prev' in event)) return logged
      const line =
        logged.topic === 'updates'
          ? folds.updates && updateLine(folds.updates, event.policy)
          : folds.weights && weightLine(folds.weights, event.policy)
      return line ? { ...logged, event: { ...event, prev: line.chain.tip } } : logged
    }
    case 'ownKey': {
      if (event.type !== 'BatchSealed' || !folds.updates || !folds.weights) return logged
      if (event.parent.version === weightLine(folds.weights, event.policy).head) return logged
      updateLine(folds.updates, event.policy).chain.read.add(logged.id)
      return null
    }
    case 'openList': {
      if (event.type !== 'SessionClosed' || !folds.turns) return logged
      const { turns } = folds
      const open = openTurns(turns.sessions.get(event.session))
      return { ...logged, event: { ...event, open } satisfies SessionClosed }
    }
    case 'register': {
      if (event.type !== 'TurnScored' && event.type !== 'TurnSkipped') return logged
      const scores = folds.scores?.(event.policy)
      const held = scores?.turns.get(event.turn)
      const judge = event.type === 'TurnScored' ? event.judge : null
      if (scores && held && held.rank === null && event.rank === null && held.judge !== judge)
        scores.turns.delete(event.turn)
      return logged
    }
    default:
      return logged
  }
}

const trunk = (policy: string): string => policy.slice(0, policy.indexOf('~'))
