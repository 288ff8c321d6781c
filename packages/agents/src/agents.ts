/** All agents. A new one: a file in this folder, an entry. If two match a request, the first in `AGENTS` applies. */
import { contentText } from '@instar/events'
import { aider } from './aider.ts'
import {
  header,
  systemText,
  type Agent,
  type Headers,
  type Message,
  type SideTask,
  type TextProtocol,
  type UserId,
} from './agent.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { openClaw } from './openclaw.ts'
import { openCode } from './opencode.ts'
import { proxies } from './proxies.ts'
import { qwenCode } from './qwen-code.ts'
import { react } from './react.ts'
import { smolagents } from './smolagents.ts'

export const AGENTS: readonly Agent[] = [
  claudeCode,
  codex,
  openCode,
  qwenCode,
  openClaw,
  smolagents,
  react,
  aider,
  proxies,
]

const first = <T>(read: (agent: Agent) => T | null | undefined): T | null => {
  for (const agent of AGENTS) {
    const value = read(agent)
    if (value !== null && value !== undefined) return value
  }
  return null
}

/** The headers of all agents. */
export const AGENT_HEADERS: readonly string[] = AGENTS.flatMap(({ headers }) => headers ?? [])

export const agentSession = (headers: Headers): string | null => first((agent) => agent.session?.(headers))

export const sessionInMessages = (messages: readonly Message[]): string | null =>
  first((agent) => agent.sessionInMessages?.(messages))

export const parentSession = (headers: Headers): string | null => first((agent) => agent.parent?.(headers))

/** The parts of a user id; null if it is a plain name. */
export const userIdParts = (id: string): UserId | null => first((agent) => agent.userId?.(id))

/** Classes of OpenClaw-RL's plugin and of `x-instar-turn-kind` besides the agents' own. */
const SIDE_CLASSES: ReadonlySet<string> = new Set([
  'side',
  'title',
  'summary',
  ...AGENTS.flatMap(({ sideClasses }) => sideClasses ?? []),
])
const MAIN_CLASSES: ReadonlySet<string> = new Set(['main', 'turn'])

/** The request's kind by its headers; null if no header has a known class. */
export const kindInHeaders = (headers: Headers): 'main' | 'side' | null => {
  const requestClass = header(headers, 'x-instar-turn-kind') ?? first((agent) => agent.requestClass?.(headers))
  if (requestClass === null) return null
  return SIDE_CLASSES.has(requestClass.toLowerCase()) ? 'side' : MAIN_CLASSES.has(requestClass) ? 'main' : null
}

const SIDE_TASKS = ['title', 'compaction', 'memory'] as const
const sideTexts = (of: 'sideSystems' | 'sideRequests', task: SideTask): RegExp[] =>
  AGENTS.flatMap((agent) => agent[of]?.[task] ?? [])
const SIDE = SIDE_TASKS.map((task) => ({
  task,
  systems: sideTexts('sideSystems', task),
  requests: sideTexts('sideRequests', task),
}))

/** What an agent's text asks for besides the conversation; null: nothing that is known. */
export const sideTask = (messages: readonly Message[]): SideTask | null => {
  const system = (systemText(messages) ?? '').trim()
  const last = contentText(messages.findLast(({ role }) => role === 'user')?.content).trim()
  const found = SIDE.find(
    ({ systems, requests }) =>
      systems.some((begins) => begins.test(system)) || requests.some((begins) => begins.test(last)),
  )
  return found?.task ?? null
}

/** Whether an agent's text asks for a title, a summary or a memory. */
export const isSideRequest = (messages: readonly Message[]): boolean => sideTask(messages) !== null

const USER_TURNS = AGENTS.flatMap(({ userTurn }) => userTurn ?? [])
/** UUIDs, trace ids and other ids that agents send. */
const TURN_NAME = /^[\w.:-]{1,128}$/

/**
 * The user turn of a request: the agent's id for all requests that one user message caused, including those of
 * subagents and summaries. It is recorded for readers of the log and has no other effect. `explicit` takes precedence
 * if it is valid.
 */
export const userTurnOf = (headers: Headers, explicit: string | null = null): string | null =>
  [explicit, ...USER_TURNS.flatMap((namesIn) => namesIn(headers))].find(
    (name): name is string => typeof name === 'string' && TURN_NAME.test(name),
  ) ?? null

const IGNORED_SYSTEMS = AGENTS.flatMap(({ ignoredSystem }) => ignoredSystem ?? [])
export const isIgnoredSystem = (text: string): boolean => IGNORED_SYSTEMS.some((begins) => begins.test(text))

const ADDED = [
  ...AGENTS.flatMap(({ wrappers }) => wrappers ?? []),
  ...AGENTS.flatMap(({ sentences }) => sentences ?? []),
]
const PREFIXES = AGENTS.flatMap(({ prefix }) => prefix ?? [])

/** Splits a user message into the user's words and the blocks that agents added. */
export const userWords = (text: string): { words: string; added: string[] } => {
  const added: string[] = []
  let words = text
  for (const pattern of ADDED)
    words = words.replace(pattern, (found) => {
      added.push(found.trim())
      return ''
    })
  words = PREFIXES.reduce((rest, prefix) => rest.replace(prefix, ''), words).trim()
  const quoted = /^"([^"]*)"$/.exec(words)
  return { words: quoted?.[1] !== undefined ? quoted[1].trim() : words, added }
}

/** Whether an agent replaced the last user message. Feedback on its answer does not apply to the user's own message. */
export const rewritesUser = (messages: readonly Message[]): boolean =>
  AGENTS.some((agent) => agent.rewritesUser?.(messages) === true)

const SCRIPTED = AGENTS.flatMap(({ scripted }) => scripted ?? [])

/** Whether an agent, and not the model, wrote the assistant message at index `at`. */
export const isScriptedAnswer = (messages: readonly Message[], at: number): boolean => {
  const before = messages[at - 1]
  if (before?.role !== 'user') return false
  const [text, answer] = [contentText(before.content), contentText(messages[at]?.content)]
  return SCRIPTED.some((script) => script.message.test(text) && script.answer.test(answer))
}

export const TEXT_PROTOCOLS: readonly TextProtocol[] = AGENTS.flatMap(({ textProtocol }) => textProtocol ?? [])
