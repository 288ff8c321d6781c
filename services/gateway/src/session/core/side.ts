/**
 * Classifies side requests, such as titles, summaries and memories, which are not part of the conversation. They are
 * recognised by the agent's headers or words (packages/agents), or because a session that had tools now has none.
 */
import { isSideRequest, kindInHeaders, type Headers } from '@instar/agents'
import type { TurnKind } from '@instar/events'
import type { Message } from '@instar/dialects'

/** Whether the messages after the last answer are tool results only. Requests for titles or summaries never are. */
export const bringsResults = (messages: readonly Message[]): boolean => {
  const said = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
  return said.some(({ role }) => role === 'tool') && said.every(({ role }) => role === 'tool' || role === 'system')
}

/** `toolsBefore`: whether the session's last main turn had tools or tool results; null without a main turn. */
export const kindOf = (
  headers: Headers,
  request: { messages: readonly Message[]; tools: readonly unknown[] },
  toolsBefore: boolean | null,
): TurnKind => {
  const marked = kindInHeaders(headers)
  if (marked !== null) return marked
  if (isSideRequest(request.messages)) return 'side'
  return toolsBefore === true && request.tools.length === 0 && !bringsResults(request.messages) ? 'side' : 'main'
}
