/**
 * `POST /v1/sessions/{id}/close`: the client says that the conversation is over, so that its last turn does not wait
 * for the idle time.
 */
import { closings, InstarError, openTurns, type SessionClosed } from '@instar/events'
import { sessionOfLabel } from './core/labels.ts'
import { keyOfSession, sessionState, type SessionIndex } from './core/session-index.ts'
import type { Capture } from '../capture/capture.ts'
import type { Tail } from './tail.ts'

type ClosingPorts = { index: SessionIndex; tail: Tail; capture: Capture; now: () => number; tailWaitMs: number }
type ClosingReply = { session_id: string; closed: string[] }

/**
 * `discarded`: the session's turns are not trainable. `label`: the session's id or the client's label. `closed`: the
 * turns that waited for a next state; closing again returns an empty list.
 */
export const closeSession = async (
  ports: ClosingPorts,
  call: { label: string; key: string | null; discarded?: boolean },
): Promise<ClosingReply> => {
  const { index, tail, capture, now } = ports
  const session = sessionOfLabel(call.key, call.label)
  // Includes turns that were answered just before, here or at another gateway.
  await tail.turnsWithin(ports.tailWaitMs)
  if (index.forgotten.has(session)) await tail.restore(session)
  if (keyOfSession(index, session) !== call.key)
    throw new InstarError('unknown_turn', 'There is no such session.', { field: 'id' })
  const open = openTurns(sessionState(index, session))
  const discarded =
    call.discarded === true &&
    (sessionState(index, session)?.turns ?? []).some(({ discardedBy }) => discardedBy === null)
  const parts = closings(open)
  for (const part of discarded && parts.length === 0 ? [[]] : parts) {
    const event: SessionClosed = { type: 'SessionClosed', session, open: part, why: 'client', at: now(), discarded }
    await capture.write(event)
  }
  return { session_id: session, closed: open }
}
