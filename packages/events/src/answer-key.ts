/**
 * The key by which a recorded answer is found in a later request. Clients trim and re-serialise the messages that they
 * send back; the text and the values of the tool calls are preserved. The key has two hashes: `strict` of the text as
 * it is, `loose` of the text without leading and trailing white space. Ids, reasoning and annotations are not included.
 */
import { derivedId } from './ids.ts'
import type { AnswerKey } from './records.ts'

export type AnswerCall = { name: string; arguments: string }

export const answerKey = (text: string, calls: readonly AnswerCall[]): AnswerKey => {
  const tools = calls.map((call) => [call.name, canonicalArguments(call.arguments)])
  const strict = derivedId('answer', JSON.stringify([text, tools]))
  const trimmed = text.trim()
  return { strict, loose: trimmed === text ? strict : derivedId('answer', JSON.stringify([trimmed, tools])) }
}

/** Canonical JSON, or the text itself if it is not JSON. */
const canonicalArguments = (text: string): string => {
  try {
    return canonicalJson(JSON.parse(text))
  } catch {
    return text
  }
}

/** JSON with object keys in code-unit order and without white space. */
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

/** The text of a message's content: a string, or the concatenated text parts of an array; '' for other values. */
export const contentText = (content: unknown): string => {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) =>
      part !== null && typeof part === 'object' && 'text' in part && typeof part.text === 'string' ? part.text : '',
    )
    .join('')
}
