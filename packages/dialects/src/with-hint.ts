/**
 * The teacher's prompt: the messages of the request, with the hint on a new line at the end of the last user message.
 */
type ChatMessage = { role: string; content: unknown; [key: string]: unknown }

export const withHint = (messages: readonly ChatMessage[], hint: string): ChatMessage[] => {
  const at = messages.findLastIndex((message) => message.role === 'user')
  const message = messages[at]
  if (!message) return [...messages, { role: 'user', content: hint }]
  const content = Array.isArray(message.content)
    ? [...(message.content as unknown[]), { type: 'text', text: `\n${hint}` }]
    : `${typeof message.content === 'string' ? message.content : ''}\n${hint}`
  return messages.with(at, { ...message, content })
}
