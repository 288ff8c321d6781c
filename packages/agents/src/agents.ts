/** All agents. Where two of them read the same request, the earlier one counts. */
import { contentText } from '@instar/events'
import { aider } from './aider.ts'
import { header, systemText, type Agent, type Headers, type Message, type TextProtocol, type UserId } from './agent.ts'
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

/** Headers that any agent identifies a session or a request by. */
export const AGENT_HEADERS: readonly string[] = AGENTS.flatMap(({ headers }) => headers ?? [])

export const agentSession = (headers: Headers): string | null => first((agent) => agent.session?.(headers))

export const sessionInMessages = (messages: readonly Message[]): string | null =>
  first((agent) => agent.sessionInMessages?.(messages))

export const parentSession = (headers: Headers): string | null => first((agent) => agent.parent?.(headers))

/** A user id that is more than a name; null where it is just that. */
export const userIdParts = (id: string): UserId | null => first((agent) => agent.userId?.(id))

/** Classes of OpenClaw-RL's plugin and of `x-instar-turn-kind` besides the agents' own. */
const SIDE_CLASSES: ReadonlySet<string> = new Set([
  'side',
  'title',
  'summary',
  ...AGENTS.flatMap(({ sideClasses }) => sideClasses ?? []),
])
const MAIN_CLASSES: ReadonlySet<string> = new Set(['main', 'turn'])

/** What the request's headers say of its kind; null where they say nothing, or nothing known. */
export const kindInHeaders = (headers: Headers): 'main' | 'side' | null => {
  const said = header(headers, 'x-instar-turn-kind') ?? first((agent) => agent.requestClass?.(headers))
  if (said === null) return null
  return SIDE_CLASSES.has(said.toLowerCase()) ? 'side' : MAIN_CLASSES.has(said) ? 'main' : null
}

const SIDE_SYSTEMS = AGENTS.flatMap(({ sideSystems }) => sideSystems ?? [])
const SIDE_REQUESTS = AGENTS.flatMap(({ sideRequests }) => sideRequests ?? [])

/** Whether an agent's own words ask for a title, a summary or a memory. */
export const isSideRequest = (messages: readonly Message[]): boolean => {
  const system = (systemText(messages) ?? '').trim()
  if (SIDE_SYSTEMS.some((begins) => begins.test(system))) return true
  const last = contentText(messages.findLast(({ role }) => role === 'user')?.content).trim()
  return SIDE_REQUESTS.some((begins) => begins.test(last))
}

/** What agents were seen to send: UUIDs and trace ids. */
const TURN_NAME = /^[\w.:-]{1,128}$/

/**
 * The user turn of a request: the agent's name for all requests that one message of its user caused, those of subagents
 * and summaries among them. It is recorded for readers of the log; nothing is decided by it. `told` goes before all.
 */
export const userTurnOf = (headers: Headers, told: string | null = null): string | null =>
  [told, ...AGENTS.flatMap((agent) => agent.userTurn?.(headers) ?? [])].find(
    (name): name is string => typeof name === 'string' && TURN_NAME.test(name),
  ) ?? null

const IGNORED_SYSTEMS = AGENTS.flatMap(({ ignoredSystem }) => ignoredSystem ?? [])
export const isIgnoredSystem = (text: string): boolean => IGNORED_SYSTEMS.some((begins) => begins.test(text))

const ADDED = [
  ...AGENTS.flatMap(({ wrappers }) => wrappers ?? []),
  ...AGENTS.flatMap(({ sentences }) => sentences ?? []),
]
const PREFIXES = AGENTS.flatMap(({ prefix }) => prefix ?? [])

/** A user message: the person's words, and what agents added around them. */
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

/** Whether an agent replaced the user's last words: an answer to them says nothing of how to answer the user. */
export const rewritesUser = (messages: readonly Message[]): boolean =>
  AGENTS.some((agent) => agent.rewritesUser?.(messages) === true)

const SCRIPTED = AGENTS.flatMap(({ scripted }) => scripted ?? [])

/** Whether the answer at this place is one that an agent wrote in the model's name. */
export const isScriptedAnswer = (messages: readonly Message[], at: number): boolean => {
  const told = messages[at - 1]
  if (told?.role !== 'user') return false
  const [text, answer] = [contentText(told.content), contentText(messages[at]?.content)]
  return SCRIPTED.some((one) => one.told.test(text) && one.answer.test(answer))
}

export const TEXT_PROTOCOLS: readonly TextProtocol[] = AGENTS.flatMap(({ textProtocol }) => textProtocol ?? [])
