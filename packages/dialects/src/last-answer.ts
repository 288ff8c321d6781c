/** Where in a message list our last answer stands, and the key by which it is found. */
import { isScriptedAnswer } from '@instar/agents'
import { answerKey, contentText, withoutThought, type AnswerCall, type AnswerKey } from '@instar/events'

type Message = { role: string; content?: unknown; tool_calls?: unknown }

/**
 * The model's last answer in a Chat Completions message list and where what follows it begins. `after` is
 * null when there is no assistant message or nothing follows the last one. A thought that a client put back in front of
 * it is left out: it was no part of the content that the client was given.
 */
export const lastAnswer = (messages: readonly Message[]): { after: AnswerKey | null; stateFrom: number } => {
  const at = messages.findLastIndex((message, i) => message.role === 'assistant' && !isScriptedAnswer(messages, i))
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
