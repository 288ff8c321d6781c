/** The last answer of the model in a message list. */
import { isScriptedAnswer } from '@instar/agents'
import { answerKey, contentText, withoutThought, type AnswerCall, type AnswerKey } from '@instar/events'

type ChatMessage = { role: string; content?: unknown; tool_calls?: unknown }

/**
 * The key of the model's last answer in a list of Chat Completions messages, and the index of the first message behind
 * it. `after` is null if there is no answer of the model or no message follows it. Reasoning that a client put in front
 * of the content is left out, since the answer's content did not contain it.
 */
export const lastAnswer = (messages: readonly ChatMessage[]): { after: AnswerKey | null; stateFrom: number } => {
  const at = messages.findLastIndex((message, i) => message.role === 'assistant' && !isScriptedAnswer(messages, i))
  const message = messages[at]
  if (!message || at === messages.length - 1) return { after: null, stateFrom: at + 1 }
  const content = withoutThought(contentText(message.content))
  return { after: answerKey(content, callsOf(message.tool_calls)), stateFrom: at + 1 }
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
