/**
 * Which requests are no part of the conversation: titles, summaries, memories that an agent asks for beside it. The
 * agent's headers or words say so (packages/agents), or a session that had tools and now has none.
 */
import { isSideRequest, kindInHeaders, type Headers } from '@instar/agents'
import type { TurnKind } from '@instar/events'
import type { Message } from '@instar/dialects'

/** Whether all that is said to the last answer are results of its calls: no title or summary is asked for by those. */
export const bringsResults = (messages: readonly Message[]): boolean => {
  const said = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
  return said.some(({ role }) => role === 'tool') && said.every(({ role }) => role === 'tool' || role === 'system')
}

/** `toolsBefore`: whether the session's last main turn had tools, or results of them; null where there is none yet. */
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
