/**
 * Messages as they go on to an engine that takes messages: built anew of what the dialect's reader understood.
 * A field that is not named here does not reach the engine, whatever the client put beside a text: an address to
 * fetch, a name that the engine alone knows, a second field of one name. Texts that spell a control token
 * (`<|im_start|>`) get a zero-width space inside, so that an engine that reads control tokens in content reads none.
 */
import { isFields, type Fields, type Message } from '@instar/dialects'

const BREAK = '\u200b'

/** What chat formats in use write control tokens as; `[INST]`, `<s>` and the like are the Llama 2 and Mistral ones. */
const CONTROL =
  /<(?=[|｜][^<>\n]{1,64}[|｜]>|(?:start_of_turn|end_of_turn|bos|eos|pad|unk|s|\/s)>)|\[(?=\/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])|<(?=<\/?SYS>>)/gu

/** The text, with a zero-width space behind the first character of each control token that it spells. */
export const plain = (text: string): string => text.replace(CONTROL, (first) => `${first}${BREAK}`)

/** A value of JSON with every text of it plain, names of fields too. */
const plainValue = (value: unknown): unknown => {
  if (typeof value === 'string') return plain(value)
  if (Array.isArray(value)) return value.map(plainValue)
  if (!isFields(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [plain(name), plainValue(inner)]))
}

/** Fields of a request beside messages and tools: a template may be given them, too. */
export const plainFields = (fields: Fields): Fields => plainValue(fields) as Fields

/** Those of the named fields that are texts. */
const texts = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => (typeof fields[name] === 'string' ? [[name, plain(fields[name])]] : [])))

/** As the readers built them (packages/dialects/src/media.ts): data, or an address that was read as a public one. */
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

/** What a provider needs again of its own thinking: signed or sealed texts, no addresses. */
const THOUGHT = ['type', 'id', 'format', 'text', 'summary', 'data', 'signature']
const thoughtOf = (thought: Fields): Fields => ({
  ...texts(thought, THOUGHT),
  ...(typeof thought['index'] === 'number' ? { index: thought['index'] } : {}),
})

/** Texts of a message beside its content. */
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
 * Tools that the client runs itself. One that the engine would run (a search, a server to be called by its address)
 * is left out: the engine stands in another network than the client.
 */
export const forwardedTools = (tools: readonly unknown[]): unknown[] =>
  tools.filter(isFields).flatMap((tool): Fields[] => {
    const { function: named, custom } = tool
    if (isFields(named)) return [{ type: 'function', function: plainValue(named) }]
    return isFields(custom) ? [{ type: 'custom', custom: plainValue(custom) }] : []
  })
