/**
 * What an agent puts on the wire besides its user's words: who it says it is, which requests are no part of the
 * conversation, and what it writes in the user's name. One file for each agent, one entry in `AGENTS`; every field is
 * optional. The versions in which each was seen are in docs/agents.md.
 */
import { contentText } from '@instar/events'

export type Headers = Readonly<Record<string, string | string[] | undefined>>
export type Message = { role: string; content?: unknown }

export type Agent = {
  name: string
  /** Headers that identify its session or describe the request; `instar doctor agent` lists those that came. */
  headers?: readonly string[]
  /** The label of the session that a request belongs to. */
  session?: (headers: Headers) => string | null
  /** The same, where the messages alone tell it. */
  sessionInMessages?: (messages: readonly Message[]) => string | null
  /** The label of the session that started this one: a subagent's request names it. */
  parent?: (headers: Headers) => string | null
  /** What its user id stands for, where it is more than a name. */
  userId?: (id: string) => UserId | null
  /** Its own name for the kind of request. */
  requestClass?: (headers: Headers) => string | null
  /** Request classes that are no part of the conversation. */
  sideClasses?: readonly string[]
  /** How the system texts of its side requests begin. */
  sideSystems?: readonly RegExp[]
  /** How the last user message of its side requests begins, which the agent wrote. */
  sideRequests?: readonly RegExp[]
  /** Its names for all requests that one message of its user caused, the best first. */
  userTurn?: (headers: Headers) => readonly unknown[]
  /** System texts that change from request to request and mean nothing to the model. */
  ignoredSystem?: RegExp
  /** Blocks that it adds to a user message. Global patterns. */
  wrappers?: readonly RegExp[]
  /** Sentences that it writes as the user. Global patterns. */
  sentences?: readonly RegExp[]
  /** What it puts in front of the user's words. */
  prefix?: RegExp
  /** Whether it replaced the user's last words by words of its own: no answer to them is trained on. */
  rewritesUser?: (messages: readonly Message[]) => boolean
  /** A user message that it wrote, to which it adds an answer in the model's name. */
  scripted?: { told: RegExp; answer: RegExp }
  /** How it writes tool calls and results as text. */
  textProtocol?: TextProtocol
}

export type UserId = { person: string | null; session: string | null }

export type TextProtocol = {
  /** An answer that calls a tool. */
  call: RegExp
  /** Lines that restate the calls behind an answer. Global. */
  restated?: RegExp
  /** How a user message with a tool's result begins, and what separates it from the user's next words. */
  result?: { begins: RegExp; userFrom: string }
}

/** One value of a header, trimmed; null if absent or empty. */
export const header = (headers: Headers, name: string): string | null => {
  const value = headers[name]
  const first = (Array.isArray(value) ? value[0] : value)?.trim()
  return first ? first : null
}

/** The first of these headers that has a value. */
export const firstHeader = (headers: Headers, names: readonly string[]): string | null => {
  for (const name of names) {
    const value = header(headers, name)
    if (value !== null) return value
  }
  return null
}

export const systemText = (messages: readonly Message[]): string | null => {
  const system = messages.find(({ role }) => role === 'system' || role === 'developer')
  return system === undefined ? null : contentText(system.content)
}
