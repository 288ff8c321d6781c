/**
 * What a request body says. Read leniently: the gateway has already accepted it, so an odd shape yields less
 * text, never an error. Wrappers that agents put around a person's words are stripped here; the log keeps them.
 */
import { TEXT_PROTOCOLS, userWords } from '@instar/agents'
import { dialectOf, parseJson, type Fields } from '@instar/dialects'
import { textAfterAnswer, contentOfAnswer, contentText, InstarError } from '@instar/events'

type ConversationMessage = { role: string; text: string }

/** The messages of a request body in the dialect that the turn's record names, in order. */
export const messagesOf = (dialect: string, body: Uint8Array): ConversationMessage[] =>
  dialectOf(dialect)
    .messages(parsed(body))
    .map(({ role, content }) => ({ role, text: contentText(content) }))

/** Messages before the request that a judge is shown, and tools whose names it is shown; the last and the first ones. */
const MOST_BEFORE = 6
const MOST_TOOLS = 64

/** What stood before the person's last words. `body`: of the request. Undefined for nothing. */
export const beforeRequest = (
  body: Uint8Array,
  messages: readonly ConversationMessage[],
): { system: string; messages: ConversationMessage[]; tools: string[] } | undefined => {
  const isSystem = ({ role }: ConversationMessage): boolean => role === 'system' || role === 'developer'
  const system = messages
    .filter(isSystem)
    .map(({ text }) => text)
    .join('\n')
  const earlier = messages.slice(0, Math.max(0, lastWords(messages))).filter((one) => !isSystem(one))
  const tools = toolNames(parsed(body))
  if (system === '' && earlier.length === 0 && tools.length === 0) return undefined
  return { system, messages: earlier.slice(-MOST_BEFORE), tools: tools.slice(0, MOST_TOOLS) }
}

/** In each dialect a tool has its name in `name` or in `function.name`. */
const toolNames = ({ tools }: Fields): string[] =>
  (Array.isArray(tools) ? (tools as unknown[]) : []).flatMap((tool) => {
    const { name, function: of } = (tool ?? {}) as { name?: unknown; function?: { name?: unknown } | null }
    const found = name ?? of?.name
    return typeof found === 'string' ? [found.slice(0, 100)] : []
  })

/** An answer: the messages that it was given to, and its raw text. */
export type Answered = { messages: readonly ConversationMessage[]; text: string }

/**
 * What a person and what tools said to an answer, wrappers stripped, '' for nothing: messages `from` to the end of what
 * came after it, and what an agent put behind the answer in the message before.
 */
export const saidSince = (
  answered: Answered,
  messages: readonly ConversationMessage[],
  from: number,
): NextStateText => {
  const said: NextStateText = { user: '', tools: '' }
  const add = (who: keyof NextStateText, text: string): void => {
    if (text !== '') said[who] += said[who] === '' ? text : `\n${text}`
  }
  const answer = messages[from - 1]
  const acts = answer?.role === 'assistant' && calls(answer.text)
  if (answer?.role === 'assistant') add('tools', putBehindIt(answered, answer.text, from - 1))
  for (const { role, text } of messages.slice(from)) {
    const { tools, user } = role === 'user' && acts ? parted(text) : { tools: '', user: text }
    add('tools', tools)
    if (role === 'user' || role === 'tool') add(role === 'user' ? 'user' : 'tools', stripWrappers(user))
  }
  return said
}

type NextStateText = { user: string; tools: string }

const calls = (answer: string): boolean => TEXT_PROTOCOLS.some(({ call }) => call.test(answer))
const withoutRestatedCalls = (text: string): string =>
  TEXT_PROTOCOLS.reduce((rest, { restated }) => (restated ? rest.replace(restated, '') : rest), text)

const putBehindIt = ({ messages, text }: Answered, message: string, at: number): string => {
  const held = messages
    .slice(at)
    .map((earlier) => earlier.text)
    .join('\n')
  return withoutRestatedCalls(textAfterAnswer(message, held, contentOfAnswer(text)) ?? '').trim()
}

/** A message in the user's name: a tool's result up to the user's next words, where a text agent put one there. */
const parted = (text: string): NextStateText => {
  const result = TEXT_PROTOCOLS.find((protocol) => protocol.result?.begins.test(text))?.result
  if (!result) return { tools: '', user: text }
  const user = text.indexOf(result.userFrom)
  const tools = (user < 0 ? text : text.slice(0, user)).trim()
  return { tools, user: user < 0 ? '' : text.slice(user + result.userFrom.length) }
}

/** The person's last words; '' if there are none. */
export const lastRequest = (messages: readonly ConversationMessage[]): string => {
  const last = messages[lastWords(messages)]
  return last ? stripWrappers(last.text) : ''
}

/** Where the person's last words are; -1 if there are none. */
const lastWords = (messages: readonly ConversationMessage[]): number =>
  messages.findLastIndex(({ role, text }) => role === 'user' && stripWrappers(text) !== '')

/** What is not taken for the person's words, of the message with the last ones and what follows it; '' for nothing. */
export const wrappedInRequest = (messages: readonly ConversationMessage[]): string =>
  wrappedSince(messages, Math.max(0, lastWords(messages)))

/**
 * What stands in wrappers in the user's messages `from` and later, '' for nothing. A person can type a wrapper as an
 * agent writes it: who judges has to see what is not read as words.
 */
export const wrappedSince = (messages: readonly ConversationMessage[], from: number): string =>
  messages
    .slice(from)
    .filter(({ role }) => role === 'user')
    .flatMap(({ text }) => userWords(text).added)
    .join('\n')

export const stripWrappers = (text: string): string => userWords(text).words

const parsed = (body: Uint8Array): Fields => {
  try {
    return parseJson(body)
  } catch (error) {
    if (error instanceof InstarError) return {}
    throw error
  }
}
