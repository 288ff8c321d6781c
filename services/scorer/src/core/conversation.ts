/**
 * What a request body says. Read leniently: the gateway has already accepted it, so an odd shape yields less
 * text, never an error. Wrappers that agents put around a person's words are stripped here; the log keeps them.
 */
import { dialectOf, parseJson, type Fields } from '@instar/dialects'
import { behindAnswer, contentOfAnswer, contentText, InstarError } from '@instar/events'

export type Message = { role: string; text: string }

/** The messages of a request body in the dialect that the turn's record names, in order. */
export const messagesOf = (dialect: string, body: Uint8Array): Message[] =>
  dialectOf(dialect)
    .messages(parsed(body))
    .map(({ role, content }) => ({ role, text: contentText(content) }))

/** An answer: the messages that it was given to, and its raw text. */
export type Answered = { messages: readonly Message[]; text: string }

/**
 * What a person and what tools said to an answer, wrappers stripped, '' for nothing: messages `from` to the end of what
 * came after it, and what an agent put behind the answer in the message before.
 */
export const saidSince = (answered: Answered, messages: readonly Message[], from: number): Said => {
  const said: Said = { user: '', tools: '' }
  const add = (who: keyof Said, text: string): void => {
    if (text !== '') said[who] += said[who] === '' ? text : `\n${text}`
  }
  const answer = messages[from - 1]
  const acts = answer?.role === 'assistant' && ACTS.test(answer.text)
  if (answer?.role === 'assistant') add('tools', putBehindIt(answered, answer.text, from - 1))
  for (const { role, text } of messages.slice(from)) {
    const { tools, user } = role === 'user' && acts ? parted(text) : { tools: '', user: text }
    add('tools', tools)
    if (role === 'user' || role === 'tool') add(role === 'user' ? 'user' : 'tools', stripWrappers(user))
  }
  return said
}

export type Said = { user: string; tools: string }

/** Agents of a text protocol write down what they call. */
const ACTS = /(?<![^\n])(?:Action|Calling tools):/
const CALLING = /(?<![^\n])Calling tools:\n[^\n]*/g

const putBehindIt = ({ messages, text }: Answered, message: string, at: number): string => {
  const held = messages
    .slice(at)
    .map((earlier) => earlier.text)
    .join('\n')
  return (behindAnswer(message, held, contentOfAnswer(text)) ?? '').replace(CALLING, '').trim()
}

/** What such agents give back in the user's name, up to the user's next words where one message has both (smolagents). */
const RESULT = /^\s*(?:Observation:|(?:Call id: [^\n]*\n)?Error:\n)/
const TASK = '\nNew task:\n'

const parted = (text: string): Said => {
  if (!RESULT.test(text)) return { tools: '', user: text }
  const task = text.indexOf(TASK)
  const tools = (task < 0 ? text : text.slice(0, task)).trim()
  return { tools, user: task < 0 ? '' : text.slice(task + TASK.length) }
}

/** The person's last words; '' if there are none. */
export const lastRequest = (messages: readonly Message[]): string => {
  const last = messages[lastWords(messages)]
  return last ? stripWrappers(last.text) : ''
}

/** Where the person's last words are; -1 if there are none. */
const lastWords = (messages: readonly Message[]): number =>
  messages.findLastIndex(({ role, text }) => role === 'user' && stripWrappers(text) !== '')

/** What is not taken for the person's words, of the message with the last ones and what follows it; '' for nothing. */
export const wrappedInRequest = (messages: readonly Message[]): string =>
  wrappedSince(messages, Math.max(0, lastWords(messages)))

/**
 * What stands in wrappers in the user's messages `from` and later, '' for nothing. A person can type a wrapper as an agent
 * writes it: who judges has to see what is not read as words.
 */
export const wrappedSince = (messages: readonly Message[], from: number): string =>
  messages
    .slice(from)
    .filter(({ role }) => role === 'user')
    .flatMap(({ text }) => unwrapped(text).wrapped)
    .join('\n')

const BLOCKS = [
  /<system-reminder>[\s\S]*?(?:<\/system-reminder>|$)/g,
  /<environment_context>[\s\S]*?(?:<\/environment_context>|$)/g,
  /<subagent_notification>[\s\S]*?(?:<\/subagent_notification>|$)/g,
  /<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>[\s\S]*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|$)/g,
]
/** What agents say in the user's name: when an answer was cut (Claude Code, Qwen Code), after a compaction (OpenCode), about files and how to change them (aider), before a task and behind a result (smolagents, CrewAI). */
const AGENTS_WORDS = [
  /(?<![^\n])Your response above was cut off mid-stream\.[^\n]*/g,
  /(?<![^\n])The connection dropped mid-response\.[\s\S]*?(?:<\/previous_response_suffix>|$)/g,
  /^\s*Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed\.\s*$/g,
  /^\s*New task:\n/g,
  /^\s*Analyze the tool result\. If requirements are met, provide the Final Answer\.[^\n]*$/g,
  /^(?:I updated the files\.|I am not sharing any files that you can edit yet\.)$/g,
  /^(?:I have \*added these files to the chat\*|Here are (?:summaries of some files|some READ ONLY files))[\s\S]*$/g,
  /(?<![^\n])(?:# \*SEARCH\/REPLACE block\* Rules:|To suggest changes to a file you MUST return )[\s\S]*$/g,
]
/** `[Sat 2026-11-21 04:09 UTC] ` in front of what a person typed. */
const DATED = /^\s*\[(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? [^\]\n]{4,40}\]\s*/i

/** A text without what agents put around a person's words, and that. */
const unwrapped = (text: string): { words: string; wrapped: string[] } => {
  const wrapped: string[] = []
  let words = text
  for (const block of [...BLOCKS, ...AGENTS_WORDS])
    words = words.replace(block, (found) => {
      wrapped.push(found.trim())
      return ''
    })
  return { words, wrapped }
}

export const stripWrappers = (text: string): string => {
  const stripped = unwrapped(text).words.replace(DATED, '').trim()
  const quoted = /^"([^"]*)"$/.exec(stripped)
  return quoted?.[1] !== undefined ? quoted[1].trim() : stripped
}

const parsed = (body: Uint8Array): Fields => {
  try {
    return parseJson(body)
  } catch (error) {
    if (error instanceof InstarError) return {}
    throw error
  }
}
