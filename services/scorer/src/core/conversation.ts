/**
 * What a request body says. Read leniently: the gateway has already accepted it, so an odd shape yields less
 * text, never an error. Wrappers that agents put around a person's words are stripped here; the log keeps them.
 */
import { dialectOf, parseJson, type Fields } from '@instar/dialects'
import { contentText, InstarError } from '@instar/events'

export type Message = { role: string; text: string }

/** The messages of a request body in the dialect that the turn's record names, in order. */
export const messagesOf = (dialect: string, body: Uint8Array): Message[] =>
  dialectOf(dialect).messages(parsed(body)).map(({ role, content }) => ({ role, text: contentText(content) }))

/** What a person and what tools said in messages `from` to the end, wrappers stripped, '' for nothing. */
export const saidSince = (messages: readonly Message[], from: number): { user: string; tools: string } => {
  const fresh = messages.slice(from)
  const of = (role: string): string => fresh.filter((m) => m.role === role).map((m) => stripWrappers(m.text)).filter((text) => text !== '').join('\n')
  return { user: of('user'), tools: of('tool') }
}

/** The person's last words; '' if there are none. */
export const lastRequest = (messages: readonly Message[]): string =>
  messages.filter((m) => m.role === 'user').map((m) => stripWrappers(m.text)).findLast((text) => text !== '') ?? ''

const BLOCKS = [
  /<system-reminder>[\s\S]*?(?:<\/system-reminder>|$)/g,
  /<environment_context>[\s\S]*?(?:<\/environment_context>|$)/g,
  /<subagent_notification>[\s\S]*?(?:<\/subagent_notification>|$)/g,
  /<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>[\s\S]*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|$)/g,
]
/** What agents say in the user's name: when an answer was cut (Claude Code, Qwen Code), after a compaction (OpenCode), about files and how to change them (aider). */
const AGENTS_WORDS = [
  /(?<![^\n])Your response above was cut off mid-stream\.[^\n]*/g,
  /(?<![^\n])The connection dropped mid-response\.[\s\S]*?(?:<\/previous_response_suffix>|$)/g,
  /^\s*Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed\.\s*$/g,
  /^(?:I updated the files\.|I am not sharing any files that you can edit yet\.)$/g,
  /^(?:I have \*added these files to the chat\*|Here are (?:summaries of some files|some READ ONLY files))[\s\S]*$/g,
  /(?<![^\n])(?:# \*SEARCH\/REPLACE block\* Rules:|To suggest changes to a file you MUST return )[\s\S]*$/g,
]
/** `[Sat 2026-11-21 04:09 UTC] ` in front of what a person typed. */
const DATED = /^\s*\[(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? [^\]\n]{4,40}\]\s*/i

export const stripWrappers = (text: string): string => {
  let stripped = text
  for (const block of [...BLOCKS, ...AGENTS_WORDS]) stripped = stripped.replace(block, '')
  stripped = stripped.replace(DATED, '').trim()
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
