/**
 * The key by which our own answer is found again in a later request. Clients move, trim and re-serialise
 * what they send back; what survives is the text and the tool calls as values. Two hashes: `strict` keeps
 * the text as it is, `loose` trims outer blanks. Ids, reasoning and annotations are not part of it.
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
