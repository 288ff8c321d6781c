/**
 * The program that sent a request, as one of a closed list of names. It is recorded with the turn and has no other
 * effect: headers and texts are what the client says of itself. No text of a request becomes a name.
 */
import { header, systemText, type Headers, type Message } from './agent.ts'
import { OPENCLAW_SYSTEM } from './openclaw.ts'

/** `system`: matches the beginning of the system text. */
type Known = {
  name: string
  userAgent?: RegExp
  headers?: readonly string[]
  system?: RegExp
}

/** Names are on the log: none is ever changed, others may be added. Of two that match, the first counts. */
const PROGRAMS: readonly Known[] = [
  {
    name: 'Claude Code',
    userAgent: /^claude-(?:cli|code)\//,
    headers: ['x-claude-code-session-id', 'x-claude-code-request-class', 'x-claude-code-prompt-id'],
  },
  { name: 'Codex', userAgent: /^codex[_/-]/, headers: ['x-codex-turn-metadata', 'x-codex-window-id'] },
  { name: 'OpenCode', userAgent: /^opencode\//, headers: ['x-opencode-session'] },
  { name: 'Qwen Code', userAgent: /^QwenCode\// },
  { name: 'pi', userAgent: /^pi[ /]/ },
  { name: 'OpenClaw', system: OPENCLAW_SYSTEM },
  { name: 'aider', system: /^Act as an expert (?:software developer|code analyst|architect engineer)\b/ },
  {
    name: 'mini-swe-agent',
    system: /^You are a helpful assistant that can interact (?:multiple times )?with a computer\b/,
  },
  {
    name: 'smolagents',
    system: /^You are an expert assistant who can solve any task using (?:tool calls|code blobs)\b/,
  },
  { name: 'CrewAI', system: /^You are [^\n]{1,2000}\nYour personal goal is: / },
  { name: 'LlamaIndex', system: /^You are designed to help with a variety of tasks, from answering questions/ },
]

/** Libraries, by which agents that are not known send their requests. */
const LIBRARIES: readonly Known[] = [
  { name: 'LangChain', userAgent: /^langchain/ },
  { name: 'OpenAI Agents', userAgent: /^Agents\// },
  { name: 'Pydantic AI', userAgent: /^pydantic-ai\// },
  { name: 'AI SDK', userAgent: /^ai(?:-sdk[\w-]*)?\// },
  { name: 'OpenAI SDK', userAgent: /^(?:Async)?(?:Azure)?OpenAI\// },
  { name: 'Anthropic SDK', userAgent: /^(?:Async)?Anthropic\// },
  { name: 'curl', userAgent: /^curl\// },
  { name: 'browser', userAgent: /^Mozilla\// },
]

/** The name of a request without a mark of a known program. */
export const OTHER_AGENT = 'other'

export const AGENT_NAMES: readonly string[] = [...[...PROGRAMS, ...LIBRARIES].map(({ name }) => name), OTHER_AGENT]

/** Most characters of a header, and of a text, that are looked at. */
const LONGEST = 200
const LONGEST_TEXT = 4000

/**
 * One of `AGENT_NAMES`: by the program's user agent, or else by a header of its own (a proxy may have replaced the user
 * agent), by its texts, or by the library that it uses.
 */
export const agentNameOf = (headers: Headers, messages: readonly Message[]): string => {
  const userAgent = (header(headers, 'user-agent') ?? '').slice(0, LONGEST)
  const system = (systemText(messages) ?? '').slice(0, LONGEST_TEXT).trimStart()
  const known =
    (userAgent === '' ? undefined : PROGRAMS.find((one) => one.userAgent?.test(userAgent))) ??
    PROGRAMS.find((one) => one.headers?.some((name) => header(headers, name) !== null)) ??
    (system === '' ? undefined : PROGRAMS.find((one) => one.system?.test(system))) ??
    (userAgent === '' ? undefined : LIBRARIES.find((one) => one.userAgent?.test(userAgent)))
  return known?.name ?? OTHER_AGENT
}

const NAMES: ReadonlySet<string> = new Set(AGENT_NAMES)

/** A name that a file gives, as one of `AGENT_NAMES`. */
export const knownAgentName = (name: string): string => (NAMES.has(name) ? name : OTHER_AGENT)
