/** Appends the rewards that end an episode or a trajectory, each once. */
import { derivedId, InstarError, type FeedbackGiven, type SessionState, type TurnState } from '@instar/events'
import { sessionOfLabel, subjectOf } from '../session/core/labels.ts'
import { keyOfSession, sessionState } from '../session/core/session-index.ts'
import { closeSession, knowsOutcomes } from '../session/closing.ts'
import type { CompatPorts } from './ports.ts'

/** The session of a label with its turns. Undefined if it has no turns or belongs to another key. */
export const sessionAt = async (
  { index, tail, tailWaitMs }: CompatPorts,
  key: string | null,
  label: string,
): Promise<SessionState | undefined> => {
  const session = sessionOfLabel(key, label)
  await tail.turnsWithin(tailWaitMs)
  await tail.ready(session)
  return keyOfSession(index, session) === key ? sessionState(index, session) : undefined
}

/** The session's complete main turns. */
export const answered = (session: SessionState | undefined): TurnState[] =>
  (session?.turns ?? []).filter(({ status, kind, shown }) => shown && status === 'complete' && kind === 'main')

/** Throws `bad_request` if the same source gave the turn a different reward before. */
export const rewardTurn = async (
  { capture, now }: CompatPorts,
  turn: TurnState,
  { key, source, value }: { key: string | null; source: string; value: number },
): Promise<void> => {
  const id = derivedId('feedback', source, turn.turn).slice(0, 32)
  const before = turn.feedback.find((one) => one.id === id)
  if (before && before.value !== value)
    throw new InstarError('bad_request', `It has ended with the reward ${before.value} before, not ${value}.`, {
      field: 'reward',
    })
  if (before) return
  const event: FeedbackGiven = {
    type: 'FeedbackGiven',
    id,
    session: turn.session,
    turn: turn.turn,
    value,
    comment: null,
    subject: subjectOf(null, key, turn.session),
    key,
    at: now(),
  }
  await capture.write(event)
}

/**
 * Closes a session with the reward of its episode, and rewards `turns` instead while older readers of the log do not
 * know outcomes.
 */
export const endEpisode = async (
  ports: CompatPorts,
  session: SessionState,
  turns: readonly TurnState[],
  { key, source, value, task }: { key: string | null; source: string; value: number | null; task: string | null },
): Promise<void> => {
  const known = knowsOutcomes(ports.log)
  if (!known && value !== null) for (const turn of turns) await rewardTurn(ports, turn, { key, source, value })
  await closeSession(ports, { label: session.session, key, ...(known ? { outcome: value, task } : {}) })
}
