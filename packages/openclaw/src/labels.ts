/**
 * What requests are labelled with, and which turn each session heard last. `side` alone is said: for everything else
 * the gateway's own look at the request (titles, compactions) is not to be overruled.
 */
import type { ProviderResponse } from './host.ts'

/** What starts a run of the agent that no words of the user's ask for. */
const SIDE_TRIGGERS = new Set(['heartbeat', 'memory', 'cron', 'overflow', 'manual'])
/** Sessions that are remembered; the ones not heard of for the longest go first. */
const REMEMBERED = 1000

export type Labels = {
  /** A run of the agent begins. */
  began(session: string | undefined, trigger: string | undefined): void
  headers(session: string | undefined, kind?: 'side'): Record<string, string>
  /** An answer's headers came. */
  answered(session: string | undefined, response: ProviderResponse, kind?: 'side'): void
  /** The turn that the user of this session saw last. */
  lastTurn(session: string): string | null
}

export const createLabels = (): Labels => {
  const sessions = new Map<string, { side: boolean; turn: string | null }>()
  const touch = (session: string): { side: boolean; turn: string | null } => {
    const known = sessions.get(session) ?? { side: false, turn: null }
    sessions.delete(session)
    sessions.set(session, known)
    for (const oldest of sessions.keys()) {
      if (sessions.size <= REMEMBERED) break
      sessions.delete(oldest)
    }
    return known
  }
  const isSide = (session: string | undefined, kind: 'side' | undefined): boolean =>
    kind === 'side' || (session !== undefined && sessions.get(session)?.side === true)
  return {
    began(session, trigger) {
      if (session !== undefined && trigger !== undefined) touch(session).side = SIDE_TRIGGERS.has(trigger)
    },
    headers: (session, kind) => ({
      ...(session === undefined || !isHeader(session) ? {} : { 'x-session-id': session }),
      ...(isSide(session, kind) ? { 'x-instar-turn-kind': 'side' } : {}),
    }),
    answered(session, { status, headers }, kind) {
      const turn = headers['x-instar-turn-id']
      if (session !== undefined && turn !== undefined && status >= 200 && status < 300 && !isSide(session, kind))
        touch(session).turn = turn
    },
    lastTurn: (session) => sessions.get(session)?.turn ?? null,
  }
}

/** Printable ASCII, no blanks at its ends. */
const isHeader = (text: string): boolean => /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)
