/**
 * OpenClaw's requests. Its user agent is a library's, and without a plugin or a setting no header names the session: it is
 * known by its system text, and its session by the line that ends the first words of the user (2026.9.6, as seen on the wire).
 * After a fault it does not ask the same again: the user's prompt comes in a frame of its own words, or words of its own alone.
 */
import { contentText } from '@instar/events'
import type { Message } from '@instar/dialects'

const SYSTEM = /^\s*(?:<!-- openclaw:|You are a personal assistant running inside OpenClaw\b)/
const BEGIN = 'Runtime: agent='
const RUNTIME = /^Runtime: agent=[^|\n]+ \| session=[^|\n]+ \| sessionId=([^|\s]{1,200}) \| host=[^\n]*$/

export const isOpenClaw = (messages: readonly Message[]): boolean => {
  const system = messages.find(({ role }) => role === 'system' || role === 'developer')
  return system !== undefined && SYSTEM.test(contentText(system.content))
}

/** The session that a request of OpenClaw's says that it belongs to; null of anybody else's, or without that line. */
export const toldSession = (messages: readonly Message[]): string | null => {
  const first = messages.find(({ role }) => role === 'user')
  if (first === undefined || !isOpenClaw(messages)) return null
  const text = contentText(first.content).trimEnd()
  const at = text.lastIndexOf(BEGIN)
  return at === 0 || text[at - 1] === '\n' ? (RUNTIME.exec(text.slice(at))?.[1] ?? null) : null
}

/** How what OpenClaw says in the user's place begins, behind its date. */
const RETOLD =
  /^\s*(?:\[[^\]\n]{1,60}\] )?(?:\[Queued user message from a previous active turn;|Continue the current task from the existing transcript\b)/
/** What it adds behind the user's words. */
const ADDED = '<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>'

/** Whether OpenClaw put the user's last words otherwise: what is answered to them says nothing of how such a prompt is to be answered. */
export const isRetold = (messages: readonly Message[]): boolean => {
  const last = messages.findLast(({ role, content }) => role === 'user' && !contentText(content).startsWith(ADDED))
  return last !== undefined && RETOLD.test(contentText(last.content).slice(0, 200)) && isOpenClaw(messages)
}
