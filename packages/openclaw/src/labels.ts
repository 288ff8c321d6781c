/**
 * The headers that label requests, and the last turn of each session. Only the kind `side` is sent: for other requests
 * the gateway's own classification (titles, compactions) applies.
 */
import type { ProviderResponse } from './host.ts'

/** OpenClaw's triggers of agent runs that no user message caused. */
const SIDE_TRIGGERS = new Set(['heartbeat', 'memory', 'cron', 'overflow', 'manual'])
/** Maximum number of sessions in memory; the least recently used is evicted. */
const MAX_SESSIONS = 1000

export type Labels = {
  /** An agent run started. `trigger`: OpenClaw's reason; undefined leaves the session's kind unchanged. */
  runStarted(session: string | undefined, trigger: string | undefined): void
  headers(session: string | undefined, kind?: 'side'): Record<string, string>
  /** The headers of a response arrived. */
  responded(session: string | undefined, response: ProviderResponse, kind?: 'side'): void
  /** The id of the last turn that answered the user; null if unknown. */
  lastTurn(session: string): string | null
}

export const createLabels = (): Labels => {
  const sessions = new Map<string, { side: boolean; turn: string | null }>()
  const stateOf = (session: string): { side: boolean; turn: string | null } => {
    const state = sessions.get(session) ?? { side: false, turn: null }
    sessions.delete(session)
    sessions.set(session, state)
    for (const oldest of sessions.keys()) {
      if (sessions.size <= MAX_SESSIONS) break
      sessions.delete(oldest)
    }
    return state
  }
  const isSide = (session: string | undefined, kind: 'side' | undefined): boolean =>
    kind === 'side' || (session !== undefined && sessions.get(session)?.side === true)
  return {
    runStarted(session, trigger) {
      if (session !== undefined && trigger !== undefined) stateOf(session).side = SIDE_TRIGGERS.has(trigger)
    },
    headers: (session, kind) => ({
      ...(session === undefined || !isHeader(session) ? {} : { 'x-session-id': session }),
      ...(isSide(session, kind) ? { 'x-instar-turn-kind': 'side' } : {}),
    }),
    responded(session, { status, headers }, kind) {
      const turn = headers['x-instar-turn-id']
      if (session !== undefined && turn !== undefined && status >= 200 && status < 300 && !isSide(session, kind))
        stateOf(session).turn = turn
    },
    lastTurn: (session) => sessions.get(session)?.turn ?? null,
  }
}

/** Whether a header can contain the text: printable ASCII without leading or trailing spaces. */
const isHeader = (text: string): boolean => /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)
