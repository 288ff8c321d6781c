/**
 * Parsing of Responses requests into the messages of Chat Completions. The items of one answer (reasoning, message,
 * calls) become one assistant message. Items of unknown types are dropped.
 */
import { InstarError } from '@instar/events/errors'
import {
  fieldsOf,
  first,
  flag,
  ignoredOf,
  integer,
  isFields,
  number,
  text,
  topP,
  wrong,
  type Fields,
} from '../fields.ts'
import { ALL_MEDIA, isMedia, mediaPart, notText, TEXT_ONLY, type AcceptedMedia } from '../media.ts'
import { parseMintedId } from '../minted.ts'
import type { Message, Request } from '../request.ts'
import { reweightingOf } from '../reweighting.ts'
import { offered, qualified, shapesOf } from './tools.ts'

const MAX_TOP_LOGPROBS = 20
const ROLES = new Set(['user', 'assistant', 'system', 'developer'])
const IGNORED = ['background', 'context_management', 'moderation'] as const

/**
 * Throws `bad_request` for references to stored conversations and prompts, whose content this gateway does not have.
 */
const refuseStored = (body: Fields): void => {
  for (const [field, instead] of [
    ['conversation', 'previous_response_id, or send the items'],
    ['prompt', 'instructions and input'],
  ] as const) {
    if ((body[field] ?? null) !== null)
      throw new InstarError(
        'bad_request',
        `${field} is not supported: this gateway does not store it; use ${instead}.`,
        { field },
      )
  }
}

export const responsesRequest = (body: Fields, accepts: AcceptedMedia = TEXT_ONLY): Request => {
  refuseStored(body)
  const { tools, dropped, strict } = offered(body['tools'])
  return {
    model: text(body, 'model'),
    messages: conversationOf(body, accepts),
    tools,
    dropped,
    strict,
    functions: false,
    shapes: shapesOf(body['tools']),
    mayCall: body['tool_choice'] !== 'none',
    stream: flag(body, 'stream'),
    includeUsage: true,
    n: 1,
    temperature: number(body, 'temperature', 0, 2),
    topP: topP(body),
    topK: integer(body, 'top_k', -1, Number.MAX_SAFE_INTEGER),
    seed: integer(body, 'seed', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    maxTokens: integer(body, 'max_output_tokens', 1, Number.MAX_SAFE_INTEGER),
    stop: [],
    reweighting: reweightingOf(body),
    logprobs: includes(body, 'message.output_text.logprobs'),
    topLogprobs: integer(body, 'top_logprobs', 0, MAX_TOP_LOGPROBS) ?? 0,
    user: first(text(body, 'user'), text(body, 'safety_identifier')),
    ignored: ignoredOf(body, IGNORED),
    body,
  }
}

/** The messages of a stored body; none if it does not parse. */
export const responsesMessages = (body: Fields): Message[] => {
  try {
    return conversationOf(body, ALL_MEDIA)
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}

/** Whether the body's `include` contains the value. */
export const includes = (body: Fields, what: string): boolean =>
  Array.isArray(body['include']) && body['include'].includes(what)

/** `input` as items; a string is one user message. Throws `bad_request`. */
export const inputOf = (body: Fields): Fields[] => {
  const { input } = body
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  if (input === undefined || input === null) return []
  if (!Array.isArray(input)) throw wrong('input', 'a text or a list of items')
  return input.map((item: unknown, i) => fieldsOf(item, `input[${i}]`))
}

const conversationOf = (body: Fields, accepts: AcceptedMedia): Message[] => {
  const instructions = text(body, 'instructions')
  const items = inputOf(body)
  const messages = messagesOf(items, accepts)
  if (messages.length === 0)
    throw wrong(
      'input',
      items.length === 0
        ? 'a text or a list of at least one item'
        : 'a text, or a list with a message, a call or the output of a call',
    )
  return instructions === null || instructions === ''
    ? messages
    : [{ role: 'system', content: instructions }, ...messages]
}

/** A message of reasoning alone, as pydantic-ai sends reasoning without an id. */
const REASONING_MESSAGE = /^\s*<think>([^]*?)<\/think>\s*$/

type ToolCall = { id: unknown; type: 'function'; function: { name: string; arguments: string } }
/**
 * The items of one answer. `texts` is null until a message item. `minted`: the minted ids of its items; `turns`: the
 * turns that these name.
 */
type AnswerItems = {
  texts: string[] | null
  reasoning: string[]
  calls: ToolCall[]
  minted: string[]
  turns: Set<string>
}

/**
 * The messages of the items. Adjacent reasoning, assistant and call items are one answer. A new answer begins with a
 * reasoning or assistant item after a text or call, unless the minted ids of both belong to one turn.
 */
const messagesOf = (items: readonly Fields[], accepts: AcceptedMedia): Message[] => {
  const out: Message[] = []
  const at: { open: AnswerItems | null } = { open: null }
  // Reasoning alone remains of an interrupted answer and is dropped.
  const close = (): void => {
    if (at.open && (at.open.texts !== null || at.open.calls.length > 0)) out.push(messageOf(at.open))
    at.open = null
  }
  const answer = (item: Fields, opens: boolean): AnswerItems => {
    const { open } = at
    if (open && opens && (open.texts !== null || open.calls.length > 0) && !ofOneTurn(open, item['id'])) close()
    return (at.open ??= { texts: null, reasoning: [], calls: [], minted: [], turns: new Set() })
  }
  for (const [i, item] of items.entries()) {
    const where = `input[${i}]`
    const type = item['type'] ?? (typeof item['role'] === 'string' ? 'message' : null)
    if (type === 'reasoning') {
      const into = answer(item, true)
      into.reasoning.push(...textsOf(item['summary']), ...textsOf(item['content']))
      addMinted(into, item['id'], item['encrypted_content'])
    } else if (type === 'message' && item['role'] === 'assistant') {
      const into = answer(item, true)
      const content = joinedText(partsOf(item['content'], `${where}.content`, TEXT_ONLY))
      const reasoning = REASONING_MESSAGE.exec(content)?.[1]
      if (reasoning !== undefined) into.reasoning.push(reasoning.trim())
      else (into.texts ??= []).push(content)
      addMinted(into, item['id'])
    } else if (type === 'function_call' || type === 'custom_tool_call') {
      const into = answer(item, false)
      into.calls.push(callOf(item, where))
      addMinted(into, item['id'])
    } else {
      const message = inputMessageOf(item, type, where, accepts)
      if (!message) continue
      close()
      out.push(message)
    }
  }
  close()
  return out
}

/** Whether the id was minted for the turn of an item of the answer. */
const ofOneTurn = ({ turns }: AnswerItems, id: unknown): boolean => {
  const parsed = parseMintedId(id)
  return parsed !== null && turns.has(parsed.turn)
}

const addMinted = (into: AnswerItems, ...ids: unknown[]): void => {
  for (const id of ids) {
    const parsed = parseMintedId(id)
    if (!parsed) continue
    into.minted.push(String(id))
    into.turns.add(parsed.turn)
  }
}

const messageOf = ({ texts, reasoning, calls, minted }: AnswerItems): Message => ({
  role: 'assistant',
  content: texts?.join('') ?? (calls.length > 0 ? null : ''),
  ...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.join('\n') }),
  ...(calls.length === 0 ? {} : { tool_calls: calls }),
  ...(minted.length === 0 ? {} : { minted }),
})

/** The message of a user, system or tool output item; null for other types. */
const inputMessageOf = (item: Fields, type: unknown, where: string, accepts: AcceptedMedia): Message | null => {
  if (type === 'function_call_output' || type === 'custom_tool_call_output')
    return {
      role: 'tool',
      tool_call_id: text(item, 'call_id'),
      content: contentOf(item['output'], `${where}.output`, accepts),
    }
  if (type !== 'message') return null
  const { role } = item
  if (typeof role !== 'string' || !ROLES.has(role)) throw wrong(`${where}.role`, `one of ${[...ROLES].join(', ')}`)
  return { role, content: contentOf(item['content'], `${where}.content`, role === 'user' ? accepts : TEXT_ONLY) }
}

const callOf = (item: Fields, where: string): ToolCall => {
  const name = text(item, 'name')
  if (name === null) throw wrong(`${where}.name`, 'the name of the tool')
  const args =
    item['type'] === 'custom_tool_call'
      ? JSON.stringify({ input: text(item, 'input') ?? '' })
      : (text(item, 'arguments') ?? '')
  return {
    id: item['call_id'],
    type: 'function',
    function: { name: qualified(text(item, 'namespace'), name), arguments: args },
  }
}

const partsOf = (content: unknown, where: string, accepts: AcceptedMedia): Fields[] => {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw wrong(where, 'a text or a list of parts')
  return content.flatMap((part: unknown, i): Fields[] => {
    const at = `${where}[${i}]`
    if (isFields(part) && isMedia(part)) return [mediaPart(part, at, accepts)]
    if (isFields(part) && typeof part['text'] === 'string') return [{ type: 'text', text: part['text'] }]
    if (isFields(part) && part['type'] === 'refusal') return []
    throw notText(part, at)
  })
}

const joinedText = (parts: readonly Fields[]): string => parts.map((part) => String(part['text'])).join('')

/** A string if all parts are text, else the parts. */
const contentOf = (content: unknown, where: string, accepts: AcceptedMedia): string | Fields[] => {
  const parts = partsOf(content, where, accepts)
  return parts.some(({ type }) => type !== 'text') ? parts : joinedText(parts)
}

const textsOf = (parts: unknown): string[] =>
  Array.isArray(parts)
    ? parts.flatMap((part: unknown) => (isFields(part) && typeof part['text'] === 'string' ? [part['text']] : []))
    : []
