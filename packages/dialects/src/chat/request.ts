/** Parsing of Chat Completions requests. Unknown fields are accepted and ignored. */
import {
  fieldsOf,
  first,
  flag,
  ignoredOf,
  integer,
  isFields,
  number,
  stopsOf,
  text,
  topP,
  wrong,
  type Fields,
} from '../fields.ts'
import { isMedia, mediaPart, notText, TEXT_ONLY, type AcceptedMedia } from '../media.ts'
import type { Message, Request } from '../request.ts'
import { reweightingOf } from '../reweighting.ts'
import { callsOf, usesFunctions, withTools } from './functions.ts'

const ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function'])
const MAX_CANDIDATES = 16
const MAX_TOP_LOGPROBS = 20
/** Fields that request output other than text. */
const IGNORED = ['modalities', 'audio', 'web_search_options'] as const

const isTextOnly = (modalities: unknown): boolean =>
  Array.isArray(modalities) && modalities.every((one) => one === 'text')

/** The messages of a stored body. It was validated before, so invalid parts are tolerated. */
export const chatMessages = (body: Fields): Message[] =>
  (Array.isArray(body['messages']) ? body['messages'] : []).map((one: unknown) => {
    const message = isFields(one) ? one : {}
    return { content: null, ...message, role: typeof message['role'] === 'string' ? message['role'] : '' }
  })

export const chatRequest = (body: Fields, accepts: AcceptedMedia = TEXT_ONLY): Request => {
  const functions = usesFunctions(body)
  return parseRequest(functions ? withTools(body) : body, functions, accepts)
}

const parseRequest = (body: Fields, functions: boolean, accepts: AcceptedMedia): Request => ({
  model: text(body, 'model'),
  messages: messagesOf(body['messages'], accepts),
  tools: toolsOf(body['tools']),
  shapes: new Map(),
  strict: new Set(),
  functions,
  dropped: [],
  mayCall: body['tool_choice'] !== 'none',
  stream: flag(body, 'stream'),
  includeUsage:
    body['stream_options'] !== undefined &&
    body['stream_options'] !== null &&
    flag(fieldsOf(body['stream_options'], 'stream_options'), 'include_usage'),
  n: integer(body, 'n', 1, MAX_CANDIDATES) ?? 1,
  temperature: number(body, 'temperature', 0, 2),
  topP: topP(body),
  topK: integer(body, 'top_k', -1, Number.MAX_SAFE_INTEGER),
  seed: integer(body, 'seed', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
  maxTokens: first(
    integer(body, 'max_completion_tokens', 1, Number.MAX_SAFE_INTEGER),
    integer(body, 'max_tokens', 1, Number.MAX_SAFE_INTEGER),
  ),
  stop: stopOf(body['stop']),
  reweighting: reweightingOf(body),
  logprobs: flag(body, 'logprobs'),
  topLogprobs: integer(body, 'top_logprobs', 0, MAX_TOP_LOGPROBS) ?? 0,
  user: text(body, 'user'),
  ignored: ignoredOf({ ...body, modalities: isTextOnly(body['modalities']) ? null : body['modalities'] }, IGNORED),
  body,
})

/** Roles whose messages may contain media. */
const MEDIA_ROLES: ReadonlySet<unknown> = new Set(['user', 'tool', 'function'])

const messagesOf = (value: unknown, accepts: AcceptedMedia): Message[] => {
  if (!Array.isArray(value)) throw wrong('messages', 'a list of messages')
  if (value.length === 0) throw wrong('messages', 'a list of at least one message')
  return value.map((message: unknown, i) => {
    const where = `messages[${i}]`
    const fields = fieldsOf(message, where)
    const { role, content } = fields
    if (typeof role !== 'string' || !ROLES.has(role)) throw wrong(`${where}.role`, `one of ${[...ROLES].join(', ')}`)
    const parsedContent = contentOf(content, `${where}.content`, MEDIA_ROLES.has(role) ? accepts : TEXT_ONLY)
    const calls = callsOf(fields) ?? null
    if (calls !== null && (!Array.isArray(calls) || !calls.every(isFields)))
      throw wrong(`${where}.tool_calls`, 'a list of calls')
    if (role === 'user' && (content === undefined || content === null))
      throw wrong(`${where}.content`, 'a text or a list of parts')
    // Token ids come from the log; a client's are dropped.
    const { token_ids: _, function_call: __, ...rest } = fields
    return {
      ...rest,
      ...(calls === null ? {} : { tool_calls: calls }),
      role: role === 'function' ? 'tool' : role,
      content: parsedContent,
    }
  })
}

const contentOf = (content: unknown, where: string, accepts: AcceptedMedia): unknown => {
  if (content === undefined || content === null || typeof content === 'string') return content ?? null
  if (!Array.isArray(content)) throw wrong(where, 'a text or a list of parts')
  return content.map((part: unknown, i) => {
    const at = `${where}[${i}]`
    if (!isFields(part)) throw wrong(at, 'an object')
    if (isMedia(part)) return mediaPart(part, at, accepts)
    if (typeof part['text'] === 'string' || part['type'] === 'refusal') return part
    throw notText(part, at)
  })
}

const toolsOf = (value: unknown): readonly unknown[] => {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || !value.every(isFields)) throw wrong('tools', 'a list of objects')
  return value
}

const stopOf = (value: unknown): string[] => {
  if (value === undefined || value === null) return []
  return stopsOf(Array.isArray(value) ? value : [value], 'stop', 'a text or ')
}
