/** Converts a request of any dialect to a Chat Completions request, for engines that take messages. */
import { isFields, type Dialect, type Request } from '@instar/dialects'
import type { ChatRequest } from '@instar/engine/port'
import { forwardedMessage, forwardedTools, plainFields } from './forwarded.ts'

export const chatOf = (dialect: Dialect, request: Request): ChatRequest => {
  const { strict } = request
  const tools = forwardedTools(request.tools).map((tool) => asStrict(tool, strict))
  return {
    stream: request.stream,
    messages: request.messages.map(forwardedMessage),
    tools,
    fields: plainFields(dialect.engineFields(request, tools.length > 0)),
  }
}

const asStrict = (tool: unknown, strict: ReadonlySet<string>): unknown =>
  isFields(tool) && isFields(tool['function']) && strict.has(String(tool['function']['name']))
    ? { ...tool, function: { ...tool['function'], strict: true } }
    : tool

/**
 * Estimates the prompt's tokens at four bytes per token, roughly right for English and JSON. Images and files count as
 * 0 until the engine reports its own count.
 */
export const estimatedTokens = ({ messages, tools }: Pick<Request, 'messages' | 'tools'>): number =>
  Math.ceil(
    Buffer.byteLength(
      JSON.stringify([messages, tools], (name, value: unknown) =>
        name === 'image_url' || name === 'file_data' ? null : value,
      ),
    ) / 4,
  )
