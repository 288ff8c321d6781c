/**
 * Which requests are no part of the conversation: titles, summaries, memories that an agent asks for beside it.
 * Headers say so where an agent sends them; else its own words do, as they were seen on the wire (the versions
 * are in docs/agents.md), or a session that had tools and now has none.
 */
import { contentText, type TurnKind } from '@instar/events'
import type { Message } from '@instar/dialects'
import { header, type Headers } from './labels.ts'
import { codexMetadata } from './user-turn.ts'

const SIDE_CLASSES = new Set([
  'side',
  'auxiliary',
  'compaction',
  'compact',
  'title',
  'summary',
  'memory',
  'memory_consolidation',
])

/** How system texts of side requests begin. */
const SIDE_SYSTEMS = [
  /^You are naming a coding session\b/,
  /^You are a title generator\b/,
  /^You are a context summarization (agent|assistant)\b/,
  /\bmemory extraction subagent\b/i,
]

/** How the last words of the user's begin, which the agent wrote. */
const SIDE_REQUESTS = [/^You are performing a CONTEXT CHECKPOINT COMPACTION\b/, /^CRITICAL: Respond with TEXT ONLY\b/]

/** What a header says of the request; null where none does. */
const markedAs = (headers: Headers): TurnKind | null => {
  const marked =
    header(headers, 'x-instar-turn-kind') ??
    header(headers, 'x-turn-type') ??
    header(headers, 'x-claude-code-request-class') ??
    codexKind(headers) ??
    header(headers, 'x-openai-subagent')
  if (marked === null) return null
  return SIDE_CLASSES.has(marked.toLowerCase()) ? 'side' : marked === 'main' || marked === 'turn' ? 'main' : null
}

const codexKind = (headers: Headers): string | null => {
  const kind = codexMetadata(headers)?.['request_kind']
  return typeof kind === 'string' ? kind : null
}

const saysSo = (messages: readonly Message[]): boolean => {
  const system = messages.find(({ role }) => role === 'system' || role === 'developer')
  const last = messages.findLast(({ role }) => role === 'user')
  return (
    SIDE_SYSTEMS.some((begin) => begin.test(contentText(system?.content).trim())) ||
    SIDE_REQUESTS.some((begin) => begin.test(contentText(last?.content).trim()))
  )
}

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
  const marked = markedAs(headers)
  if (marked !== null) return marked
  if (saysSo(request.messages)) return 'side'
  return toolsBefore === true && request.tools.length === 0 && !bringsResults(request.messages) ? 'side' : 'main'
}
