/** A request as an engine that takes messages is asked it: in the shapes of Chat Completions, whatever dialect it came in. */
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

/** Four bytes a token: what English and JSON come to, roughly. Images and files count as nothing until the engine says. */
export const estimatedTokens = ({ messages, tools }: Pick<Request, 'messages' | 'tools'>): number =>
  Math.ceil(
    Buffer.byteLength(
      JSON.stringify([messages, tools], (name, value: unknown) =>
        name === 'image_url' || name === 'file_data' ? null : value,
      ),
    ) / 4,
  )
