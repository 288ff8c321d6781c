/** Chat messages in the one form that chat templates take: string content, one system message, and that first. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject } from '@instar/events/json'
import type { ChatMessage } from '@instar/engine/port'

/** A string as it is, null as '', a list of text parts joined. Other parts are a `bad_request`. */
export function textOf(content: unknown, where: string): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content))
    throw new InstarError('bad_request', `${where}.content is neither text nor a list of parts.`, {
      field: `${where}.content`,
    })
  return content
    .map((part: unknown, i) => {
      if (isJsonObject(part) && typeof part['text'] === 'string') return part['text']
      const type = isJsonObject(part) && typeof part['type'] === 'string' ? part['type'] : 'of no type'
      throw new InstarError('bad_request', `${where}.content[${i}] is ${type}; this model takes text only.`, {
        field: `${where}.content[${i}]`,
      })
    })
    .join('')
}

/** Templates write arguments with tojson, so a JSON text has to become the value first. What is not JSON stays text. */
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

/** Marks a system message that the client's protocol places after an answer. No other text can contain the mark. */
const PLACED = 'system-message'
const BREAK = '\u200b'
const SPELLED = new RegExp(`<(?=[\\s/]*${PLACED})`, 'giu')

/** The text, with a zero-width space in each mark of a placed system message that it spells, opening or closing. */
const unplaced = (text: string): string => text.replace(SPELLED, `<${BREAK}`)

/**
 * System and developer texts, in order and with a blank line between, lead as one system message. One that comes
 * after an answer stays where it is, as a marked message of the user's: led to the front, it would change the
 * beginning of a conversation that goes on, and templates know no second system message. What anybody else says, and
 * such a text itself, cannot spell that mark: of an answer alone every character stays, for it is what was sampled.
 */
export function normalise(messages: readonly ChatMessage[]): ChatMessage[] {
  const system: string[] = []
  const rest: ChatMessage[] = []
  let answered = false
  for (const [i, message] of messages.entries()) {
    const content = textOf(message.content, `messages[${i}]`)
    if (message.role === 'system' || message.role === 'developer') {
      if (content === '') continue
      if (answered) rest.push({ role: 'user', content: `<${PLACED}>\n${unplaced(content)}\n</${PLACED}>` })
      else system.push(content)
      continue
    }
    answered ||= message.role === 'assistant'
    const calls = message['tool_calls']
    const said = message.role === 'assistant' ? content : unplaced(content)
    rest.push({
      ...message,
      content: said,
      ...(calls === undefined || calls === null ? {} : { tool_calls: toolCalls(calls) }),
    })
  }
  return system.length === 0 ? rest : [{ role: 'system', content: system.join('\n\n') }, ...rest]
}
