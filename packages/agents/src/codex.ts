/** Codex. A subagent sends the `session-id` of its parent and its own `thread-id`. */
import { parseJsonObject } from '@instar/events/json'
import { firstHeader, header, type Agent, type Headers } from './agent.ts'

const metadata = (headers: Headers) => parseJsonObject(header(headers, 'x-codex-turn-metadata') ?? '')

export const codex: Agent = {
  name: 'Codex',
  headers: [
    'thread-id',
    'session-id',
    'session_id',
    'x-codex-turn-metadata',
    'x-codex-window-id',
    'x-openai-subagent',
    'x-codex-parent-thread-id',
    'x-client-request-id',
  ],
  session: (headers) => firstHeader(headers, ['thread-id', 'session-id', 'session_id']),
  parent: (headers) => header(headers, 'x-codex-parent-thread-id'),
  requestClass(headers) {
    const kind = metadata(headers)?.['request_kind']
    return typeof kind === 'string' ? kind : header(headers, 'x-openai-subagent')
  },
  sideClasses: ['compaction', 'compact', 'memory', 'memory_consolidation'],
  sideRequests: { compaction: [/^You are performing a CONTEXT CHECKPOINT COMPACTION\b/] },
  /** The root turn comes first, so that a subagent's turn belongs to its parent's. */
  userTurn(headers) {
    const turn = metadata(headers)
    return [turn?.['root_turn_id'], turn?.['turn_id']]
  },
  wrappers: [
    /<environment_context>[\s\S]*?(?:<\/environment_context>|$)/g,
    /<subagent_notification>[\s\S]*?(?:<\/subagent_notification>|$)/g,
  ],
}
