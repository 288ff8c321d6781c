/**
 * OpenClaw's requests. Its user agent is a library's, and without a plugin or a setting no header names the session: it is
 * known by its system text, and its session by the line that ends the first words of the user (2026.9.6, as seen on the wire).
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
  return at === 0 || text[at - 1] === '\n' ? RUNTIME.exec(text.slice(at))?.[1] ?? null : null
}
