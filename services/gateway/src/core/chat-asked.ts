/** A request as an engine that takes messages is asked it: in the shapes of Chat Completions, whatever dialect it came in. */
import { isFields, type Message, type Request } from '@instar/dialects'
import { forwardedMessage, forwardedTools } from './forwarded.ts'

export type ChatAsked = {
  stream: boolean
  messages: Message[]
  tools: readonly unknown[]
  toolChoice: unknown
  responseFormat: unknown
  maxTokens: number | null
}

export const chatOf = ({ stream, messages, tools: given, body, maxTokens }: Request): ChatAsked => {
  const tools = forwardedTools(given)
  return {
    stream,
    messages: messages.map(forwardedMessage),
    tools,
    toolChoice: tools.length === 0 ? null : choiceOf(body['tool_choice']),
    responseFormat: body['response_format'] ?? null,
    maxTokens,
  }
}

/** Four bytes a token: what English and JSON come to, roughly. */
export const estimatedTokens = ({ messages, tools }: Pick<Request, 'messages' | 'tools'>): number =>
  Math.ceil(Buffer.byteLength(JSON.stringify([messages, tools])) / 4)

/** Of Chat Completions and Responses a word or `{type: function}`; of Messages `{type: auto | any | tool | none, name}`. */
const choiceOf = (choice: unknown): unknown => {
  if (!isFields(choice)) return choice ?? null
  const { type, name } = choice
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (typeof name === 'string') return { type: 'function', function: { name } }
  return choice
}
