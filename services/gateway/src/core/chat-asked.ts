/** A request as an engine that takes messages is asked it: in the shapes of Chat Completions, whatever dialect it came in. */
import { fieldIn } from './json-field.ts'
import { isFields, type Message, type Request } from '@instar/dialects'

/** `messagesJson`: the messages as the client wrote them, where they go on unchanged; `messages` is then empty. */
export type ChatAsked = { stream: boolean; messages: Message[]; messagesJson: Uint8Array | null; tools: readonly unknown[]; toolChoice: unknown; responseFormat: unknown; maxTokens: number | null }

/** `sent`: the body, where it came in this very dialect. */
export const chatOf = ({ stream, messages, tools, body, maxTokens }: Request, sent: Uint8Array | null): ChatAsked => {
  const messagesJson = sent && asWritten(body['messages']) ? fieldIn(sent, 'messages') : null
  return {
    stream,
    messages: messagesJson ? [] : messages.map(({ minted: _, ...message }) => message),
    messagesJson,
    tools,
    toolChoice: tools.length === 0 ? null : choiceOf(body['tool_choice']),
    responseFormat: body['response_format'] ?? null,
    maxTokens,
  }
}

/** Nothing in them is said otherwise inside. */
const asWritten = (messages: unknown): boolean =>
  Array.isArray(messages) && messages.every((message) => isFields(message) && message['token_ids'] === undefined && message['role'] !== 'function')

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
