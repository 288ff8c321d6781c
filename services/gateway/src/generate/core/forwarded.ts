/**
 * Messages for an engine that takes messages, rebuilt from the fields that the dialect's reader understood. Unnamed
 * fields do not reach the engine: they could hold an address to fetch, a name that only the engine knows, or a
 * duplicate of a field. Text that spells a control token (`<|im_start|>`) gets a zero-width space inside, so that an
 * engine that parses control tokens in content finds none.
 */
import { isFields, type Fields, type Message } from '@instar/dialects'

const BREAK = '\u200b'

/** Control tokens of common chat formats; `[INST]`, `<s>` and similar ones are those of Llama 2 and Mistral. */
const CONTROL =
  /<(?=[|｜][^<>\n]{1,64}[|｜]>|(?:start_of_turn|end_of_turn|bos|eos|pad|unk|s|\/s)>)|\[(?=\/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])|<(?=<\/?SYS>>)/gu

/** The text with a zero-width space after the first character of each spelled control token. */
export const plain = (text: string): string => text.replace(CONTROL, (first) => `${first}${BREAK}`)

/** A JSON value whose strings, including field names, are passed through `plain`. */
const plainValue = (value: unknown): unknown => {
  if (typeof value === 'string') return plain(value)
  if (Array.isArray(value)) return value.map(plainValue)
  if (!isFields(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [plain(name), plainValue(inner)]))
}

/** Fields of a request other than messages and tools, which a template may read. */
export const plainFields = (fields: Fields): Fields => plainValue(fields) as Fields

/** Those of the named fields that are strings. */
const texts = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => (typeof fields[name] === 'string' ? [[name, plain(fields[name])]] : [])))

/** Media as the readers built it (packages/dialects/src/media.ts): data, or a validated public address. */
const mediaOf = ({ image_url: image, file }: Fields): Fields[] => {
  if (isFields(image) && typeof image['url'] === 'string')
    return [{ type: 'image_url', image_url: { url: image['url'], ...texts(image, ['detail']) } }]
  return isFields(file) && typeof file['file_data'] === 'string'
    ? [{ type: 'file', file: { ...texts(file, ['filename']), file_data: file['file_data'] } }]
    : []
}

const partOf = (part: Fields): Fields[] => {
  if (part['type'] === 'image_url' || part['type'] === 'file') return mediaOf(part)
  if (typeof part['text'] === 'string') return [{ type: 'text', text: plain(part['text']) }]
  return typeof part['refusal'] === 'string' ? [{ type: 'refusal', refusal: plain(part['refusal']) }] : []
}

const contentOf = (content: unknown): unknown => {
  if (typeof content === 'string') return plain(content)
  return Array.isArray(content) ? content.filter(isFields).flatMap(partOf) : null
}

const callOf = (call: Fields): Fields => {
  const { function: named, custom } = call
  return {
    ...texts(call, ['id']),
    ...(isFields(custom)
      ? { type: 'custom', custom: texts(custom, ['name', 'input']) }
      : { type: 'function', function: isFields(named) ? texts(named, ['name', 'arguments']) : {} }),
  }
}

/** Fields of reasoning that a provider needs back: signed or encrypted text, no addresses. */
const THOUGHT = ['type', 'id', 'format', 'text', 'summary', 'data', 'signature']
const thoughtOf = (thought: Fields): Fields => ({
  ...texts(thought, THOUGHT),
  ...(typeof thought['index'] === 'number' ? { index: thought['index'] } : {}),
})

/** String fields of a message besides its content. */
const NAMED = ['name', 'tool_call_id', 'refusal', 'reasoning', 'reasoning_content']

export const forwardedMessage = (message: Message): Message => {
  const { role, content, tool_calls: calls, function_call: call, reasoning_details: thoughts } = message
  return {
    role,
    content: contentOf(content),
    ...texts(message, NAMED),
    ...(Array.isArray(calls) && calls.length > 0 ? { tool_calls: calls.filter(isFields).map(callOf) } : {}),
    ...(isFields(call) ? { function_call: texts(call, ['name', 'arguments']) } : {}),
    ...(Array.isArray(thoughts) ? { reasoning_details: thoughts.filter(isFields).map(thoughtOf) } : {}),
  }
}

/**
 * Tools that the client executes. A tool that the engine would execute (a search, a server named by its address) is
 * left out, since the engine may reach a network that the client cannot.
 */
export const forwardedTools = (tools: readonly unknown[]): unknown[] =>
  tools.filter(isFields).flatMap((tool): Fields[] => {
    const { function: named, custom } = tool
    if (isFields(named)) return [{ type: 'function', function: plainValue(named) }]
    return isFields(custom) ? [{ type: 'custom', custom: plainValue(custom) }] : []
  })
