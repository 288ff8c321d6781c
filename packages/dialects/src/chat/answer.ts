/**
 * Chat Completions responses: objects, chunks and errors.
 * https://platform.openai.com/docs/api-reference/chat
 */
import type { InstarError } from '@instar/events/errors'
import {
  fragments,
  type Call,
  type Choice,
  type TokenCounts,
  type FinishReason,
  type Piece,
  type AnswerContext,
  type Token,
} from '../answer.ts'
import type { Frame, StreamEncoder } from '../dialect.ts'
import { clientMessage, streamMessage } from '../faults.ts'
import { mintChatId } from '../minted.ts'
import type { Request } from '../request.ts'

type LogprobEntry = { token: string; logprob: number; bytes: number[] | null }
type Logprobs = { content: (LogprobEntry & { top_logprobs: LogprobEntry[] })[]; refusal: null }

const headOf = ({ session, turn, at, model, fingerprint }: AnswerContext) => ({
  id: mintChatId(session, turn),
  created: Math.floor(at / 1000),
  model,
  system_fingerprint: fingerprint,
})

const usageOf = ({
  promptTokens,
  completionTokens,
  cachedTokens = 0,
  cacheWriteTokens = 0,
  reasoningTokens = 0,
}: TokenCounts) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
  completion_tokens_details: { reasoning_tokens: reasoningTokens },
})

const tokenOf = (id: number, textOf: AnswerContext['textOf']): Omit<LogprobEntry, 'logprob'> => {
  const token = textOf(id)
  // A token that is part of a character decodes to U+FFFD; its bytes are unknown here.
  return { token, bytes: token.includes('\ufffd') ? null : [...Buffer.from(token, 'utf8')] }
}

/** The text, log-probability and UTF-8 bytes of each token and of its most likely alternatives. */
export const logprobEntries = (
  { textOf }: Pick<AnswerContext, 'textOf'>,
  tokens: readonly Token[],
): Logprobs['content'] => {
  // An answer repeats its tokens: each is decoded once.
  const decoded = new Map<number, Omit<LogprobEntry, 'logprob'>>()
  const entry = (id: number, logprob: number): LogprobEntry => {
    const known = decoded.get(id) ?? tokenOf(id, textOf)
    decoded.set(id, known)
    return { token: known.token, logprob, bytes: known.bytes }
  }
  return tokens.map(({ id, logprob, top }) => ({
    ...entry(id, logprob),
    top_logprobs: top.map((other) => entry(other.id, other.logprob)),
  }))
}

/** Whether the request asks for log-probabilities, and the engine reported one for each token. */
export const hasLogprobs = (request: Request, tokens: readonly Token[]): boolean =>
  request.logprobs && tokens.length > 0 && !tokens.some(({ unreported }) => unreported)

/** Null if the request does not ask for log-probabilities or the engine does not report tokens or theirs. */
const logprobsOf = (request: Request, context: AnswerContext, tokens: readonly Token[]): Logprobs | null =>
  hasLogprobs(request, tokens) ? { content: logprobEntries(context, tokens), refusal: null } : null

const toolCall = (call: Call, id: string) => ({
  id,
  type: 'function' as const,
  function: { name: call.name, arguments: call.arguments },
})

/** The first call as `function_call` for a request with `functions`, else all calls as `tool_calls`. */
const callsOf = ({ functions }: Request, calls: readonly Call[], ids: readonly string[]): object => {
  const [first] = calls
  if (!first) return {}
  return functions ? { function_call: first } : { tool_calls: calls.map((call, i) => toolCall(call, ids[i]!)) }
}

const finishOf = ({ functions }: Request, finish: FinishReason): FinishReason | 'function_call' =>
  functions && finish === 'tool_calls' ? 'function_call' : finish

export const chatWhole = (
  context: AnswerContext,
  request: Request,
  choices: readonly Choice[],
  counts: TokenCounts,
) => ({
  ...headOf(context),
  object: 'chat.completion' as const,
  choices: choices.map(({ shown, toolCallIds, finish, tokens }, index) => ({
    index,
    message: {
      role: 'assistant' as const,
      content: shown.content === '' && shown.calls.length > 0 ? null : shown.content,
      refusal: null,
      ...(shown.reasoning.trim() === '' ? {} : { reasoning_content: shown.reasoning.trim() }),
      ...callsOf(request, shown.calls, toolCallIds),
    },
    logprobs: logprobsOf(request, context, tokens),
    finish_reason: finishOf(request, finish),
  })),
  usage: usageOf(counts),
})

type CallDelta = { index: number; id?: string; type?: 'function'; function: { name?: string; arguments: string } }
type Delta = {
  role?: 'assistant'
  content?: string | null
  reasoning_content?: string
  tool_calls?: CallDelta[]
  function_call?: { name?: string; arguments: string }
}

const functionDeltas = (call: Call): Delta[] => [
  { function_call: { name: call.name, arguments: '' } },
  ...fragments(call.arguments).map((text): Delta => ({ function_call: { arguments: text } })),
]

/** A delta with id and name, then the arguments in fragments. */
const callDeltas = (call: Call, index: number, id: string): Delta[] => [
  { tool_calls: [{ index, id, type: 'function', function: { name: call.name, arguments: '' } }] },
  ...fragments(call.arguments).map((text): Delta => ({ tool_calls: [{ index, function: { arguments: text } }] })),
]

export const chatStream = (context: AnswerContext, request: Request): StreamEncoder => {
  const head = { ...headOf(context), object: 'chat.completion.chunk' as const }
  const usage = request.includeUsage ? { usage: null } : {}
  const calls = new Map<number, number>()
  const opened = new Set<number>()
  const chunk = (
    index: number,
    delta: Delta,
    logprobs: Logprobs | null = null,
    finish: FinishReason | 'function_call' | null = null,
  ): Frame => ({ data: { ...head, choices: [{ index, delta, logprobs, finish_reason: finish }], ...usage } })
  const open = (index: number): Frame[] => {
    if (opened.has(index)) return []
    opened.add(index)
    return [chunk(index, { role: 'assistant', content: '' })]
  }
  const deltasOf = (index: number, piece: Piece, idOf: (call: number) => string): Delta[] => {
    if (piece.type === 'content') return [{ content: piece.text }]
    if (piece.type === 'reasoning') return [{ reasoning_content: piece.text }]
    const before = calls.get(index) ?? 0
    calls.set(index, before + piece.calls.length)
    if (request.functions) return before > 0 ? [] : piece.calls.slice(0, 1).flatMap(functionDeltas)
    return piece.calls.flatMap((call, i) => callDeltas(call, before + i, idOf(before + i)))
  }
  return {
    piece(index, piece, tokens, idOf) {
      const [first, ...rest] = deltasOf(index, piece, idOf)
      if (!first) return open(index)
      return [
        ...open(index),
        chunk(index, first, logprobsOf(request, context, tokens)),
        ...rest.map((delta) => chunk(index, delta)),
      ]
    },
    finish: (index, { finish }) => [...open(index), chunk(index, {}, null, finishOf(request, finish))],
    end: (counts) => [
      ...(request.includeUsage ? [{ data: { ...head, choices: [], usage: usageOf(counts) } }] : []),
      DONE,
    ],
    fail: (fault) => [{ data: chatError(fault, streamMessage(fault)) }, DONE],
  }
}

const DONE: Frame = { data: '[DONE]' }

const TYPES: Record<number, string> = { 401: 'authentication_error', 403: 'permission_error', 429: 'rate_limit_error' }

type ChatError = { error: { message: string; type: string; param: string | null; code: string } }

export const chatError = (fault: InstarError, message = clientMessage(fault)): ChatError => {
  const field = fault.details['field']
  return {
    error: {
      message,
      type: TYPES[fault.status] ?? (fault.status >= 500 ? 'server_error' : 'invalid_request_error'),
      param: typeof field === 'string' ? field : null,
      code: fault.code,
    },
  }
}
