/**
 * The key by which our own answer is found again in a later request. Clients move, trim and re-serialise
 * what they send back; what survives is the text and the tool calls as values. Two hashes: `strict` keeps
 * the text as it is, `loose` trims outer blanks. Ids, reasoning and annotations are not part of it.
 */
import { derivedId } from './ids.ts'
import type { AnswerKey } from './records.ts'
import { withoutThought } from './text-behind.ts'

export type AnswerCall = { name: string; arguments: string }

export const answerKey = (text: string, calls: readonly AnswerCall[]): AnswerKey => {
  const tools = calls.map((call) => [call.name, canonicalArguments(call.arguments)])
  const strict = derivedId('answer', JSON.stringify([text, tools]))
  const trimmed = text.trim()
  return { strict, loose: trimmed === text ? strict : derivedId('answer', JSON.stringify([trimmed, tools])) }
}

/** Sorted-key JSON, or the text itself where it is not JSON. */
const canonicalArguments = (text: string): string => {
  try {
    return canonicalJson(JSON.parse(text))
  } catch {
    return text
  }
}

/** JSON with object keys in code-unit order and no blanks. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value)
      .filter(([, v]) => v !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    return `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${canonicalJson(v)}`).join(',')}}`
  }
  return JSON.stringify(value) ?? 'null'
}

/** The text of a message's content: a string, or the text parts of an array joined; null and absent are ''. */
export const contentText = (content: unknown): string => {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) =>
      part !== null && typeof part === 'object' && 'text' in part && typeof part.text === 'string' ? part.text : '',
    )
    .join('')
}

type Message = { role: string; content?: unknown; tool_calls?: unknown }

/** What aider tells the model between its own answer and the user's next words, and has it say Ok to. */
const TOLD_BY_AIDER =
  /^(?:I updated the files\.|I committed the changes with git hash|I switched to a new code base\.|I have \*added these files to the chat\*|I am not sharing any files that you can edit yet\.|Here are (?:summaries of some files|some READ ONLY files))/

/** Whether the answer at this place is one that an agent puts into the model's mouth. */
export const isPutInMouth = (messages: readonly Message[], at: number): boolean => {
  const [told, said] = [messages[at - 1], messages[at]]
  return (
    told?.role === 'user' && TOLD_BY_AIDER.test(contentText(told.content)) && /^Ok[.,]/.test(contentText(said?.content))
  )
}

/**
 * The model's last answer in a Chat Completions message list and where what follows it begins. `after` is
 * null when there is no assistant message or nothing follows the last one. A thought that a client put back in front of
 * it is left out: it was none of the content that the client was given.
 */
export const lastAnswer = (messages: readonly Message[]): { after: AnswerKey | null; stateFrom: number } => {
  const at = messages.findLastIndex((message, i) => message.role === 'assistant' && !isPutInMouth(messages, i))
  const message = messages[at]
  if (!message || at === messages.length - 1) return { after: null, stateFrom: at + 1 }
  const said = withoutThought(contentText(message.content))
  return { after: answerKey(said, callsOf(message.tool_calls)), stateFrom: at + 1 }
}

const callsOf = (calls: unknown): AnswerCall[] => {
  if (!Array.isArray(calls)) return []
  return calls.flatMap((call: unknown) => {
    const f = (call as { function?: { name?: unknown; arguments?: unknown } } | null)?.function
    return typeof f?.name === 'string'
      ? [{ name: f.name, arguments: typeof f.arguments === 'string' ? f.arguments : '' }]
      : []
  })
}
