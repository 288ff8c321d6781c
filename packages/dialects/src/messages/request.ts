/**
 * Parsing of Anthropic Messages requests into the messages of Chat Completions. Details that differ between requests of
 * one conversation without a change of meaning (cache marks, a string or one text block, billing headers) are dropped,
 * so that a repeated message always yields the same prompt. The log stores the body unchanged.
 */
import { isIgnoredSystem, userIdParts } from '@instar/agents'
import { InstarError } from '@instar/events/errors'
import {
  fieldsOf,
  flag,
  ignoredOf,
  integer,
  isFields,
  number,
  stopsOf,
  text,
  textIn,
  topP,
  wrong,
  type Fields,
} from '../fields.ts'
import { ALL_MEDIA, isMedia, mediaPart, notText, TEXT_ONLY, type AcceptedMedia } from '../media.ts'
import { parseMintedId } from '../minted.ts'
import type { Message, Request } from '../request.ts'
import { reweightingOf } from '../reweighting.ts'

/** Options that Anthropic's servers execute. They are ignored and reported. */
const IGNORED = ['mcp_servers', 'container', 'context_management'] as const

export const messagesRequest = (body: Fields, accepts: AcceptedMedia = TEXT_ONLY): Request => {
  const maxTokens = integer(body, 'max_tokens', 1, Number.MAX_SAFE_INTEGER)
  if (maxTokens === null) throw wrong('max_tokens', 'the number of tokens that the answer may have')
  const { tools, dropped, strict } = toolsOf(body['tools'])
  return {
    model: text(body, 'model'),
    messages: [...systemOf(body['system']), ...conversationOf(body['messages'], accepts)],
    tools,
    dropped,
    strict,
    functions: false,
    shapes: new Map(),
    mayCall: choiceOf(body['tool_choice']) !== 'none',
    stream: flag(body, 'stream'),
    includeUsage: true,
    n: 1,
    temperature: number(body, 'temperature', 0, 2),
    topP: topP(body),
    topK: integer(body, 'top_k', -1, Number.MAX_SAFE_INTEGER),
    seed: null,
    maxTokens,
    stop: stopOf(body['stop_sequences']),
    reweighting: reweightingOf(body),
    logprobs: false,
    topLogprobs: 0,
    user: userOfMetadata(body['metadata']),
    ignored: ignoredOf(body, IGNORED),
    body,
  }
}

/** The messages of a stored body; none if it does not parse. */
export const messagesMessages = (body: Fields): Message[] => {
  try {
    return [...systemOf(body['system']), ...conversationOf(body['messages'], ALL_MEDIA)]
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}

const systemOf = (system: unknown): Message[] => {
  if (system === undefined || system === null) return []
  const texts = (typeof system === 'string' ? [system] : textsOf(system, 'system')).filter(
    (line) => !isIgnoredSystem(line),
  )
  return texts.length === 0 ? [] : [{ role: 'system', content: texts.join('\n\n') }]
}

const listOf = (value: unknown, where: string): Fields[] => {
  if (!Array.isArray(value)) throw wrong(where, 'a text or a list of blocks')
  return value.map((block: unknown, i) => fieldsOf(block, `${where}[${i}]`))
}

const blocksOf = (value: unknown, where: string, accepts: AcceptedMedia): Fields[] =>
  listOf(value, where).map((block, i) => partOf(block, `${where}[${i}]`, accepts))

const textsOf = (value: unknown, where: string): string[] =>
  blocksOf(value, where, TEXT_ONLY).map((part) => String(part['text']))

const partOf = (block: Fields, where: string, accepts: AcceptedMedia): Fields => {
  const content = block['type'] === 'document' ? documentOf(block) : textIn(block)
  if (content !== null) return { type: 'text', text: content }
  if (isMedia(block)) return mediaPart(block, where, accepts)
  throw notText(block, where)
}

/** The parts with adjacent texts joined; a string if all parts are text. */
const joinTexts = (parts: readonly Fields[]): string | Fields[] => {
  const out: Fields[] = []
  for (const part of parts) {
    const last = out.at(-1)
    if (part['type'] === 'text' && last?.['type'] === 'text')
      out[out.length - 1] = { type: 'text', text: `${String(last['text'])}\n${String(part['text'])}` }
    else out.push(part)
  }
  return out.every(({ type }) => type === 'text') ? out.map((part) => String(part['text'])).join('') : out
}

/** The text of a document block: title, context and content on lines of their own; null if the content is no text. */
const documentOf = ({ source, title, context }: Fields): string | null => {
  const { type, data, content } = isFields(source) ? source : {}
  const parts: unknown[] =
    type === 'text' ? [data] : type === 'content' ? (Array.isArray(content) ? content.map(textIn) : [content]) : [null]
  if (!parts.every((part) => typeof part === 'string')) return null
  return [title, context]
    .filter((line) => typeof line === 'string' && line !== '')
    .concat(parts)
    .join('\n')
}

const conversationOf = (value: unknown, accepts: AcceptedMedia): Message[] => {
  if (!Array.isArray(value) || value.length === 0) throw wrong('messages', 'a list of at least one message')
  return value.flatMap((one: unknown, i) => {
    const where = `messages[${i}]`
    const message = fieldsOf(one, where)
    const { role, content } = message
    if (role === 'assistant') return [assistantOf(content, `${where}.content`, message['id'])]
    if (role === 'user') return userOf(content, `${where}.content`, accepts)
    if (role === 'system')
      return [
        {
          role: 'system',
          content: typeof content === 'string' ? content : textsOf(content, `${where}.content`).join('\n'),
        },
      ]
    throw wrong(`${where}.role`, 'user, assistant or system')
  })
}

/** The messages of a user message: each tool result is one of role `tool`, in the order of the blocks. */
const userOf = (content: unknown, where: string, accepts: AcceptedMedia): Message[] => {
  if (typeof content === 'string') return [{ role: 'user', content }]
  const out: Message[] = []
  let parts: Fields[] = []
  const flush = (): void => {
    if (parts.length > 0) out.push({ role: 'user', content: joinTexts(parts) })
    parts = []
  }
  for (const [i, block] of listOf(content, where).entries()) {
    if (block['type'] === 'tool_result') {
      flush()
      const result = block['content']
      out.push({
        role: 'tool',
        tool_call_id: text(block, 'tool_use_id'),
        content:
          result === undefined || result === null
            ? ''
            : typeof result === 'string'
              ? result
              : joinTexts(blocksOf(result, `${where}[${i}].content`, accepts)),
      })
    } else {
      parts.push(partOf(block, `${where}[${i}]`, accepts))
    }
  }
  flush()
  return out.length === 0 ? [{ role: 'user', content: '' }] : out
}

/** `id`: the response's id, if the client sends it back. */
const assistantOf = (content: unknown, where: string, id: unknown): Message => {
  const minted = parseMintedId(id) ? [String(id)] : []
  if (typeof content === 'string') return { role: 'assistant', content, ...(minted.length === 0 ? {} : { minted }) }
  const texts: string[] = []
  const reasoning: string[] = []
  const calls: unknown[] = []
  for (const block of listOf(content, where)) {
    if (block['type'] === 'tool_use')
      calls.push({
        id: block['id'],
        type: 'function',
        function: { name: text(block, 'name') ?? '', arguments: argumentsOf(block['input']) },
      })
    else if (block['type'] === 'thinking') {
      if (typeof block['thinking'] === 'string') reasoning.push(block['thinking'])
      if (parseMintedId(block['signature'])) minted.push(String(block['signature']))
    } else texts.push(textIn(block) ?? '')
  }
  return {
    role: 'assistant',
    content: texts.join(''),
    ...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.join('\n') }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(minted.length === 0 ? {} : { minted }),
  }
}

/** The field of a `tool_use` input with the arguments' text if they are not a JSON object. */
export const RAW_INPUT = '__raw'

const argumentsOf = (input: unknown): string => {
  if (isFields(input) && typeof input[RAW_INPUT] === 'string' && Object.keys(input).length === 1)
    return input[RAW_INPUT]
  return JSON.stringify(input ?? {})
}

/**
 * Tools with an `input_schema` are offered to the model. Others are dropped: Anthropic's servers execute them, or only
 * Anthropic's models know their schema. Throws `bad_request`.
 */
const toolsOf = (value: unknown): { tools: unknown[]; dropped: string[]; strict: ReadonlySet<string> } => {
  const strict = new Set<string>()
  if (value === undefined || value === null) return { tools: [], dropped: [], strict }
  if (!Array.isArray(value)) throw wrong('tools', 'a list of tools')
  const tools: unknown[] = []
  const dropped: string[] = []
  for (const [i, item] of value.entries()) {
    const tool = fieldsOf(item, `tools[${i}]`)
    const name = text(tool, 'name')
    if (name === null) throw wrong(`tools[${i}].name`, 'the name of the tool')
    if (isFields(tool['input_schema']))
      tools.push({
        type: 'function',
        function: {
          name,
          ...(typeof tool['description'] === 'string' ? { description: tool['description'] } : {}),
          parameters: tool['input_schema'],
        },
      })
    else dropped.push(name)
    if (tool['strict'] === true) strict.add(name)
  }
  return { tools, dropped, strict }
}

const choiceOf = (value: unknown): string | null => {
  if (value === undefined || value === null) return null
  return text(fieldsOf(value, 'tool_choice'), 'type')
}

const stopOf = (value: unknown): string[] =>
  value === undefined || value === null ? [] : stopsOf(value, 'stop_sequences')

const userIdOf = (metadata: unknown): string | null => {
  const id = isFields(metadata) ? metadata['user_id'] : null
  return typeof id === 'string' && id !== '' ? id : null
}

/** The user in `metadata.user_id`, without the session that some agents append. */
const userOfMetadata = (metadata: unknown): string | null => {
  const id = userIdOf(metadata)
  if (id === null) return null
  const parts = userIdParts(id)
  return parts === null ? id : parts.user
}

/** The session in `metadata.user_id`; null if it names none. */
export const sessionOfMetadata = (metadata: unknown): string | null => {
  const id = userIdOf(metadata)
  return id === null ? null : (userIdParts(id)?.session ?? null)
}
