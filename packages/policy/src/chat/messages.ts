/** Normalises chat messages for chat templates: string contents, and at most one system message, at the start. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject } from '@instar/events/json'
import type { ChatMessage } from '@instar/engine/port'

/** The text of a content: a string, null as '', or the concatenation of text parts. Throws `bad_request` for others. */
export function textOf(content: unknown, where: string): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content))
    throw new InstarError('bad_request', `${where}.content is neither a string nor an array of parts.`, {
      field: `${where}.content`,
    })
  return content
    .map((part: unknown, i) => {
      if (isJsonObject(part) && typeof part['text'] === 'string') return part['text']
      const type = isJsonObject(part) && typeof part['type'] === 'string' ? part['type'] : 'a part without a type'
      throw new InstarError('bad_request', `${where}.content[${i}] is ${type}; this model takes text only.`, {
        field: `${where}.content[${i}]`,
      })
    })
    .join('')
}

/** Parses arguments given as JSON text, since templates serialise them with tojson. Other text is left unchanged. */
function parsedArguments(value: unknown): unknown {
  if (typeof value !== 'string') return value
  try {
    const parsed: unknown = JSON.parse(value)
    return isJsonObject(parsed) ? parsed : value
  } catch (error) {
    if (error instanceof SyntaxError) return value
    throw error
  }
}

function toolCalls(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.map((call: unknown) => {
    if (!isJsonObject(call) || !isJsonObject(call['function'])) return call
    return { ...call, function: { ...call['function'], arguments: parsedArguments(call['function']['arguments']) } }
  })
}

/** The tag around a system message that follows an answer. `escapeTag` keeps other texts from containing it. */
const TAG = 'system-message'
const ZERO_WIDTH_SPACE = '\u200b'
const TAG_START = new RegExp(`<(?=[\\s/]*${TAG})`, 'giu')

/** Inserts a zero-width space after `<` in each opening or closing tag `system-message`. */
const escapeTag = (text: string): string => text.replace(TAG_START, `<${ZERO_WIDTH_SPACE}`)

/**
 * Joins the system and developer messages before the first answer with blank lines into one system message at the
 * start. A later one stays at its position, as a user message within the tag `system-message`: moving it to the start
 * would change the prefix of the conversation, and templates support one system message only. All texts except answers
 * are escaped so that they cannot contain the tag; answers are unchanged, since their tokens were sampled.
 */
export function normalise(messages: readonly ChatMessage[]): ChatMessage[] {
  const system: string[] = []
  const rest: ChatMessage[] = []
  let answered = false
  for (const [i, message] of messages.entries()) {
    const content = textOf(message.content, `messages[${i}]`)
    if (message.role === 'system' || message.role === 'developer') {
      if (content === '') continue
      if (answered) rest.push({ role: 'user', content: `<${TAG}>\n${escapeTag(content)}\n</${TAG}>` })
      else system.push(content)
      continue
    }
    answered ||= message.role === 'assistant'
    const calls = message['tool_calls']
    rest.push({
      ...message,
      content: message.role === 'assistant' ? content : escapeTag(content),
      ...(calls === undefined || calls === null ? {} : { tool_calls: toolCalls(calls) }),
    })
  }
  return system.length === 0 ? rest : [{ role: 'system', content: system.join('\n\n') }, ...rest]
}
