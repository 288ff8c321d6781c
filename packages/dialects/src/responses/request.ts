/**
 * What a Responses request asks for, in the shape that requests have inside: items become messages, an
 * answer's items (reasoning, message, calls) one message. Items of types that mean nothing here are left out.
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
import { EVERYTHING, isMedia, mediaPart, notText, TEXT_ONLY, type Accepts } from '../media.ts'
import { readId } from '../minted.ts'
import type { Message, Request } from '../request.ts'
import { reweightingOf } from '../reweighting.ts'
import { offered, qualified, shapesOf } from './tools.ts'

const MAX_TOP_LOGPROBS = 20
const ROLES = new Set(['user', 'assistant', 'system', 'developer'])
const IGNORED = ['background', 'context_management', 'moderation'] as const

/** Refuses references to content stored elsewhere: without it, the answer would be to another request. */
const refuseElsewhere = (body: Fields): void => {
  for (const [field, instead] of [
    ['conversation', 'previous_response_id, or send the items'],
    ['prompt', 'instructions and input'],
  ] as const) {
    if ((body[field] ?? null) !== null)
      throw new InstarError('bad_request', `${field} names what this gateway does not hold; use ${instead}.`, { field })
  }
}

export const responsesRequest = (body: Fields, accepts: Accepts = TEXT_ONLY): Request => {
  refuseElsewhere(body)
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

/** The same messages, of a body that was accepted once: what does not read is left out. */
export const responsesMessages = (body: Fields): Message[] => {
  try {
    return conversationOf(body, EVERYTHING)
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}

/** Whether `include` lists something. */
export const includes = (body: Fields, what: string): boolean =>
  Array.isArray(body['include']) && body['include'].includes(what)

/** `input` as items; a text is one message of the user's. */
export const inputOf = (body: Fields): Fields[] => {
  const { input } = body
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  if (input === undefined || input === null) return []
  if (!Array.isArray(input)) throw wrong('input', 'a text or a list of items')
  return input.map((item: unknown, i) => fieldsOf(item, `input[${i}]`))
}

const conversationOf = (body: Fields, accepts: Accepts): Message[] => {
  const instructions = text(body, 'instructions')
  const items = inputOf(body)
  const messages = gathered(items, accepts)
  if (messages.length === 0)
    throw wrong(
      'input',
      items.length === 0
        ? 'a text or a list of at least one item'
        : 'a text, or hold an item that a model reads: a message, a call or its output',
    )
  return instructions === null || instructions === ''
    ? messages
    : [{ role: 'system', content: instructions }, ...messages]
}

/** pydantic-ai sends reasoning that it cannot represent as a message of its own. */
const THOUGHT = /^\s*<think>([^]*?)<\/think>\s*$/

type Call = { id: unknown; type: 'function'; function: { name: string; arguments: string } }
type Answer = { texts: string[] | null; reasoning: string[]; calls: Call[]; minted: string[] }

/**
 * Items that follow one another are one answer, until one comes that another answer begins with: by our ids, else by
 * what an answer holds once.
 */
const gathered = (items: readonly Fields[], accepts: Accepts): Message[] => {
  const out: Message[] = []
  const at: { open: Answer | null } = { open: null }
  // Reasoning alone is the rest of an interrupted answer without content.
  const close = (): void => {
    if (at.open && (at.open.texts !== null || at.open.calls.length > 0)) out.push(messageOf(at.open))
    at.open = null
  }
  /** What opens an answer (reasoning, a text) ends one that has said something, unless both are of one turn of ours. */
  const answer = (item: Fields, opens: boolean): Answer => {
    const { open } = at
    if (open && opens && (open.texts !== null || open.calls.length > 0) && !ofOneTurn(open.minted, item['id'])) close()
    return (at.open ??= { texts: null, reasoning: [], calls: [], minted: [] })
  }
  for (const [i, item] of items.entries()) {
    const where = `input[${i}]`
    const type = item['type'] ?? (typeof item['role'] === 'string' ? 'message' : null)
    if (type === 'reasoning') {
      const into = answer(item, true)
      into.reasoning.push(...listed(item['summary']), ...listed(item['content']))
      mint(into, item['id'], item['encrypted_content'])
    } else if (type === 'message' && item['role'] === 'assistant') {
      const into = answer(item, true)
      const said = wordsOf(partsOf(item['content'], `${where}.content`, TEXT_ONLY))
      const thought = THOUGHT.exec(said)?.[1]
      if (thought !== undefined) into.reasoning.push(thought.trim())
      else into.texts = [...(into.texts ?? []), said]
      mint(into, item['id'])
    } else if (type === 'function_call' || type === 'custom_tool_call') {
      const into = answer(item, false)
      into.calls.push(callOf(item, where))
      mint(into, item['id'])
    } else {
      const message = otherOf(item, type, where, accepts)
      if (!message) continue
      close()
      out.push(message)
    }
  }
  close()
  return out
}

const ofOneTurn = (minted: readonly string[], id: unknown): boolean => {
  const mark = readId(id)
  return mark !== null && minted.some((other) => readId(other)?.turn === mark.turn)
}

const mint = (into: Answer, ...ids: unknown[]): void => {
  for (const id of ids) if (readId(id)) into.minted.push(String(id))
}

const messageOf = ({ texts, reasoning, calls, minted }: Answer): Message => ({
  role: 'assistant',
  content: texts?.join('') ?? (calls.length > 0 ? null : ''),
  ...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.join('\n') }),
  ...(calls.length === 0 ? {} : { tool_calls: calls }),
  ...(minted.length === 0 ? {} : { minted }),
})

/** A user's or a tool's message; null for items that no model reads. */
const otherOf = (item: Fields, type: unknown, where: string, accepts: Accepts): Message | null => {
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

const callOf = (item: Fields, where: string): Call => {
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

const partsOf = (content: unknown, where: string, accepts: Accepts): Fields[] => {
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

const wordsOf = (parts: readonly Fields[]): string => parts.map((part) => String(part['text'])).join('')

/** A text, where it is one. */
const contentOf = (content: unknown, where: string, accepts: Accepts): string | Fields[] => {
  const parts = partsOf(content, where, accepts)
  return parts.some(({ type }) => type !== 'text') ? parts : wordsOf(parts)
}

const listed = (parts: unknown): string[] =>
  Array.isArray(parts)
    ? parts.flatMap((part: unknown) => (isFields(part) && typeof part['text'] === 'string' ? [part['text']] : []))
    : []
