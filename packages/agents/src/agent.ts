/**
 * The protocol details of an agent: how it identifies sessions, which requests are not part of the conversation (side
 * requests), and what it adds to messages. Each agent has a file and an entry in `AGENTS`; every field is optional.
 * docs/agents.md lists the tested versions.
 */
import { contentText } from '@instar/events'

export type Headers = Readonly<Record<string, string | string[] | undefined>>
export type Message = { role: string; content?: unknown }

export type Agent = {
  name: string
  /** Headers that identify its session or describe the request; `instar doctor agent` lists those that it receives. */
  headers?: readonly string[]
  /** The label of the session that a request belongs to. */
  session?: (headers: Headers) => string | null
  /** The label of the session, for agents that send it in the messages only. */
  sessionInMessages?: (messages: readonly Message[]) => string | null
  /** The label of the parent session, in requests of a subagent. */
  parent?: (headers: Headers) => string | null
  /** The parts of its user id; null if the id is a plain name. */
  userId?: (id: string) => UserId | null
  /** The agent's name for the kind of the request. */
  requestClass?: (headers: Headers) => string | null
  /** Request classes of side requests. */
  sideClasses?: readonly string[]
  /** Match the start of the system message of its side requests, by what they are for. */
  sideSystems?: SideTexts
  /** Match the start of the last user message of its side requests. */
  sideRequests?: SideTexts
  /** Its ids for all requests that one user message caused, the most specific first. */
  userTurn?: (headers: Headers) => readonly unknown[]
  /** System texts that differ in each request and have no meaning for the model. */
  ignoredSystem?: RegExp
  /** Blocks that it adds to a user message. Global patterns. */
  wrappers?: readonly RegExp[]
  /** Sentences that it adds to user messages. Global patterns. */
  sentences?: readonly RegExp[]
  /** Matches the text that it adds before the user's words. */
  prefix?: RegExp
  /** Whether it replaced the last user message. Answers to replaced messages are not trained on. */
  rewritesUser?: (messages: readonly Message[]) => boolean
  /** A user message and the assistant message after it that the agent both writes itself. */
  scripted?: { message: RegExp; answer: RegExp }
  /** Its format of tool calls and results as text. */
  textProtocol?: TextProtocol
}

/** What a side request is for. `compaction`: a summary that takes the place of the conversation so far. */
export type SideTask = 'title' | 'compaction' | 'memory'
type SideTexts = Readonly<Partial<Record<SideTask, readonly RegExp[]>>>

export type UserId = { user: string | null; session: string | null }

export type TextProtocol = {
  /** Matches an answer that calls a tool. */
  call: RegExp
  /** Lines after an answer that repeat its calls. Global pattern. */
  restated?: RegExp
  /** The start of a user message with a tool result, and the separator before the user's next words. */
  result?: { begins: RegExp; userFrom: string }
}

/** The first value of a header, trimmed; null if absent or empty. */
export const header = (headers: Headers, name: string): string | null => {
  const value = headers[name]
  const first = (Array.isArray(value) ? value[0] : value)?.trim()
  return first ? first : null
}

/** The value of the first of these headers that is set. */
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
