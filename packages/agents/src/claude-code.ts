/** Claude Code. A subagent sends the session's id and its own agent id. */
import { parseJsonObject } from '@instar/events/json'
import { header, type Agent } from './agent.ts'

/** Characters of a user id with parts; a client may send megabytes. */
const LONGEST_ID = 4096

export const claudeCode: Agent = {
  name: 'Claude Code',
  headers: [
    'x-claude-code-session-id',
    'x-claude-code-agent-id',
    'x-claude-code-request-class',
    'x-claude-code-prompt-id',
  ],
  session(headers) {
    const session = header(headers, 'x-claude-code-session-id')
    const agent = header(headers, 'x-claude-code-agent-id')
    return session === null || agent === null ? session : `${session}-${agent}`
  },
  parent: (headers) =>
    header(headers, 'x-claude-code-agent-id') === null ? null : header(headers, 'x-claude-code-session-id'),
  /** The id is JSON with an account, a device and a session, or `user_…_session_<uuid>`. */
  userId(id) {
    if (id.length > LONGEST_ID) return null
    if (!id.startsWith('{')) {
      const session = /_session_([0-9a-f-]{36})$/.exec(id)
      return session ? { user: id.slice(0, session.index), session: session[1]! } : null
    }
    const parts = parseJsonObject(id)
    if (parts === null) return null
    const firstPart = (...names: string[]): string | null =>
      names.map((name) => parts[name]).find((part): part is string => typeof part === 'string' && part !== '') ?? null
    return { user: firstPart('account_uuid', 'device_id'), session: firstPart('session_id') }
  },
  requestClass: (headers) => header(headers, 'x-claude-code-request-class'),
  sideClasses: ['auxiliary', 'compaction'],
  sideSystems: { title: [/^You are naming a coding session\b/] },
  sideRequests: { compaction: [/^CRITICAL: Respond with TEXT ONLY\b/] },
  userTurn: (headers) => [header(headers, 'x-claude-code-prompt-id')],
  ignoredSystem: /^x-anthropic-billing-header:/,
  wrappers: [/<system-reminder>[\s\S]*?(?:<\/system-reminder>|$)/g],
  /** Added after a truncated answer; Qwen Code adds the same. */
  sentences: [
    /(?<![^\n])Your response above was cut off mid-stream\.[^\n]*/g,
    /(?<![^\n])The connection dropped mid-response\.[\s\S]*?(?:<\/previous_response_suffix>|$)/g,
  ],
}
