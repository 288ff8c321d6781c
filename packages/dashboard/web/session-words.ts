/** Terms of sessions and scores in words. A term that is not listed is shown as it is. */

/** How the gateway knew the session of its first request: `label_source`. */
const SOURCES: Readonly<Record<string, { short: string; long: string }>> = {
  header: { short: 'session id of the client', long: 'the client sends a session id' },
  agent: { short: 'session id of the agent', long: 'the agent sends its own session id' },
  minted: { short: 'id of an earlier answer', long: 'the request names an earlier answer of this gateway' },
  answer: {
    short: 'earlier answer in the history',
    long: 'the request’s history holds an earlier answer of this gateway',
  },
  prompt: { short: 'session id in the prompt', long: 'the agent writes its session id into the prompt' },
  fingerprint: {
    short: 'its beginning',
    long: 'the client sends no session id; its first messages are the same',
  },
}

export const SOURCE_CHOICES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(SOURCES).map(([code, { short }]) => [code, short]),
)

export const sourceWords = (code: string): string => SOURCES[code]?.long ?? code

export const DIALECTS: Readonly<Record<string, string>> = {
  chat: 'Chat Completions',
  responses: 'Responses',
  messages: 'Messages',
}

/** The agents that the gateway tells apart, and the libraries of those that it does not: names that records hold. */
const AGENTS = [
  'Claude Code',
  'Codex',
  'OpenCode',
  'Qwen Code',
  'pi',
  'OpenClaw',
  'aider',
  'mini-swe-agent',
  'smolagents',
  'CrewAI',
  'LlamaIndex',
  'LangChain',
  'OpenAI Agents',
  'Pydantic AI',
  'AI SDK',
  'OpenAI SDK',
  'Anthropic SDK',
  'curl',
  'browser',
]

/** Values of the filter `agent`, with their words. */
export const AGENT_CHOICES: readonly (readonly [string, string])[] = [
  ...AGENTS.map((name) => [name, name] as const),
  ['other', 'another program'],
  ['unknown', 'not recorded'],
]

/** `null`: the record has no name; it is of an earlier build, or imported. */
const agentWords = (agent: string | null): string =>
  AGENT_CHOICES.find(([name]) => name === (agent ?? 'unknown'))?.[1] ?? String(agent)

export const agentsWords = (agents: readonly (string | null)[] | null): string =>
  (agents ?? []).length === 0 ? '–' : agents!.map(agentWords).join(', ')

/** What a side request is for; null: the agent’s wording is not known. */
const TASKS = {
  title: { name: 'Title', what: 'the agent asked for a title of the conversation' },
  compaction: {
    name: 'Compaction',
    what: 'the agent asked for a summary, which takes the place of the conversation so far',
  },
  memory: { name: 'Memory', what: 'the agent asked what to remember of the conversation' },
} as const

export const taskWords = (task: keyof typeof TASKS | null): { name: string; what: string } =>
  task === null
    ? { name: 'Side request', what: 'a request of the agent for itself, not part of the conversation' }
    : TASKS[task]

/** Judges by the name with which their ids begin. */
const JUDGES: Readonly<Record<string, { name: string; what: string }>> = {
  feedback: { name: 'a person’s feedback', what: 'A thumb or a value that somebody gave. It outranks all others.' },
  reactions: {
    name: 'the reaction to it',
    what: 'A small model reads what the person said, or a tool returned, after the answer.',
  },
  signals: { name: 'the reaction to it', what: 'Rules on what the person said after the answer (an earlier build).' },
  llm: { name: 'a judging model', what: 'Another model read the answer and what came after it.' },
  self: { name: 'the base model as judge', what: 'The model’s own base read the answer and what came after it.' },
  outcome: { name: 'the outcome', what: 'The value that the client gave at the end of the episode.' },
  values: { name: 'check of claimed facts', what: 'A corrected value counts once other people have claimed it, too.' },
  seen: { name: 'check of repetitions', what: 'The same answer with the same reaction counts a few times a day.' },
  asked: { name: 'check of who asks', what: 'A question that one person alone asks counts a few times.' },
}

/** `reactions-edeb2463db53` → its entry. */
export const judgeWords = (id: string): { name: string; what: string } =>
  JUDGES[id.replace(/-[0-9a-f]{6,}$/, '')] ?? { name: id, what: '' }
