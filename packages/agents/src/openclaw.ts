/**
 * OpenClaw 2026.9.6. Without a plugin it sends neither a user agent of its own nor a session header, so it is
 * recognized by its system message, and its session by the last line of the first user message. After an error it
 * rewrites the user's message instead of repeating it.
 */
import { contentText } from '@instar/events'
import { header, systemText, type Agent, type Message } from './agent.ts'

export const OPENCLAW_SYSTEM = /^\s*(?:<!-- openclaw:|You are a personal assistant running inside OpenClaw\b)/
const RUNTIME_BEGINS = 'Runtime: agent='
const RUNTIME = /^Runtime: agent=[^|\n]+ \| session=[^|\n]+ \| sessionId=([^|\s]{1,200}) \| host=[^\n]*$/
/** Matches the start of a rewritten user message, after an optional date. */
const REWRITTEN =
  /^\s*(?:\[[^\]\n]{1,60}\] )?(?:\[Queued user message from a previous active turn;|Continue the current task from the existing transcript\b)/
/** The start of a message of context that it adds after the user's message. */
const CONTEXT = '<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>'
/** `traceparent` of W3C Trace Context: version, trace, parent, flags. OpenClaw starts one trace per user message. */
const TRACE = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/

export const isOpenClaw = (messages: readonly Message[]): boolean => OPENCLAW_SYSTEM.test(systemText(messages) ?? '')

export const openClaw: Agent = {
  name: 'OpenClaw',
  headers: ['x-turn-type', 'traceparent'],
  sessionInMessages(messages) {
    const first = messages.find(({ role }) => role === 'user')
    if (first === undefined || !isOpenClaw(messages)) return null
    const text = contentText(first.content).trimEnd()
    const at = text.lastIndexOf(RUNTIME_BEGINS)
    return at === 0 || text[at - 1] === '\n' ? (RUNTIME.exec(text.slice(at))?.[1] ?? null) : null
  },
  requestClass: (headers) => header(headers, 'x-turn-type'),
  userTurn: (headers) => [TRACE.exec(header(headers, 'traceparent') ?? '')?.[1]],
  wrappers: [/<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>[\s\S]*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|$)/g],
  /** For example `[Sat 2026-11-21 04:09 UTC] `. */
  prefix: /^\s*\[(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? [^\]\n]{4,40}\]\s*/i,
  rewritesUser(messages) {
    const last = messages.findLast(({ role, content }) => role === 'user' && !contentText(content).startsWith(CONTEXT))
    return last !== undefined && REWRITTEN.test(contentText(last.content).slice(0, 200)) && isOpenClaw(messages)
  },
}
