/**
 * `POST /v1/sessions/{id}/close`: the client says that the conversation is over, so that its last turn does not wait
 * for the idle time. A session that is an episode ends with its reward here.
 */
import { closings, InstarError, isReadable, openTurns, type SessionClosed, type SessionState } from '@instar/events'
import { flag, number, parseJson, wrong } from '@instar/dialects'
import { versionsOn, type EventLog } from '@instar/log'
import { sessionOfLabel } from './core/labels.ts'
import { keyOfSession, sessionState, type SessionIndex } from './core/session-index.ts'
import { taskIn } from './core/task.ts'
import type { Capture } from '../capture/capture.ts'
import type { Tail } from './tail.ts'

type ClosingPorts = {
  log: EventLog
  index: SessionIndex
  tail: Tail
  capture: Capture
  now: () => number
  tailWaitMs: number
}
type ClosingReply = { session_id: string; closed: string[] }

/** `outcome`: the reward of the session as an episode, −1…1. `discarded`: its turns are not trainable. */
type Ending = { outcome?: number | null; task?: string | null; discarded?: boolean }

/** The body of the request, which may be absent: `reward`, `task_id`, `discarded`. Throws `bad_request`. */
export const endingOf = (body: Uint8Array): Ending => {
  if (body.length === 0) return {}
  const fields = parseJson(body)
  const { reward } = fields
  const ending = {
    outcome: typeof reward === 'boolean' ? (reward ? 1 : -1) : number(fields, 'reward', -1, 1),
    task: taskIn(fields, 'task_id'),
    discarded: flag(fields, 'discarded'),
  }
  if (ending.discarded && ending.outcome !== null) throw wrong('reward', 'absent where discarded is true')
  return ending
}

/** Whether all readers of the log know outcomes, so that a session may end with one. */
export const knowsOutcomes = (log: EventLog): boolean => isReadable(versionsOn(log), 'SessionClosed', 3)

/**
 * `label`: the session's id or the client's label. `closed`: the turns that waited for a next state; closing again
 * returns an empty list. Throws `bad_request` for another outcome than the session has ended with, and `not_announced`.
 */
export const closeSession = async (
  ports: ClosingPorts,
  call: { label: string; key: string | null } & Ending,
): Promise<ClosingReply> => {
  const { index, tail, capture, now, log } = ports
  const { outcome = null, task = null, discarded: wanted = false } = call
  if ((outcome !== null && !knowsOutcomes(log)) || (wanted && !isReadable(versionsOn(log), 'SessionClosed', 2)))
    throw new InstarError(
      'not_announced',
      wanted
        ? 'No episode can be aborted yet: older readers of this log would learn from it.'
        : 'No session can end with a reward yet: older readers of this log do not know outcomes.',
      { type: 'SessionClosed' },
    )
  const session = sessionOfLabel(call.key, call.label)
  // Includes turns that were answered just before, here or at another gateway.
  await tail.turnsWithin(ports.tailWaitMs)
  await tail.ready(session)
  if (keyOfSession(index, session) !== call.key)
    throw new InstarError('unknown_turn', 'There is no such session.', { field: 'id' })
  const state = sessionState(index, session)
  const ends = outcome !== null && !hasEnded(state, outcome)
  const open = openTurns(state)
  const discarded = wanted && (state?.turns ?? []).some(({ discardedBy }) => discardedBy === null)
  const parts = closings(open)
  for (const [at, part] of ((discarded || ends) && parts.length === 0 ? [[]] : parts).entries()) {
    const event: SessionClosed = {
      type: 'SessionClosed',
      session,
      open: part,
      why: 'client',
      at: now(),
      discarded,
      ...(ends && at === 0 ? { outcome, task } : {}),
    }
    await capture.write(event)
  }
  return { session_id: session, closed: open }
}

/** Whether the session has this outcome. Throws `bad_request` if it has another one. */
const hasEnded = (session: SessionState | undefined, outcome: number): boolean => {
  const before = session?.outcome
  if (before && before.value !== outcome)
    throw new InstarError('bad_request', `It has ended with the reward ${before.value} before, not ${outcome}.`, {
      field: 'reward',
    })
  return before !== undefined && before !== null
}
