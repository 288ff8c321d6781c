/** The shapes of Chat Completions answers: whole, in chunks, and as errors. */
import { ERRORS, InstarError } from '@instar/events'
import type { Call, Piece } from './answer-parser.ts'
import type { Shown, Token } from './answer.ts'

export type Head = { id: string; created: number; model: string; system_fingerprint: string }
export type Finish = 'stop' | 'length' | 'tool_calls'
export type Usage = { prompt_tokens: number; completion_tokens: number; total_tokens: number }

export const usageOf = (promptTokens: number, completionTokens: number): Usage =>
  ({ prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: promptTokens + completionTokens })

export type TokenText = (id: number) => string

type LogprobEntry = { token: string; logprob: number; bytes: number[] | null }

const entry = (id: number, logprob: number, textOf: TokenText): LogprobEntry => {
  const token = textOf(id)
  // A part of a character has no text of its own; its bytes are not known here.
  return { token, logprob, bytes: token.includes('\ufffd') ? null : [...Buffer.from(token, 'utf8')] }
}

export type Logprobs = { content: (LogprobEntry & { top_logprobs: LogprobEntry[] })[]; refusal: null }

export const logprobsOf = (tokens: readonly Token[], textOf: TokenText): Logprobs =>
  ({ content: tokens.map(({ id, logprob, top }) => ({ ...entry(id, logprob, textOf), top_logprobs: top.map((other) => entry(other.id, other.logprob, textOf)) })), refusal: null })

const toolCall = (call: Call, id: string) => ({ id, type: 'function' as const, function: { name: call.name, arguments: call.arguments } })

export type Choice = { shown: Shown; toolCallIds: string[]; finish: Finish; logprobs: Logprobs | null }

export const completion = (head: Head, choices: readonly Choice[], usage: Usage) => ({
  ...head,
  object: 'chat.completion' as const,
  choices: choices.map(({ shown, toolCallIds, finish, logprobs }, index) => ({
    index,
    message: {
      role: 'assistant' as const,
      content: shown.content === '' && shown.calls.length > 0 ? null : shown.content,
      refusal: null,
      ...(shown.reasoning.trim() === '' ? {} : { reasoning_content: shown.reasoning.trim() }),
      ...(shown.calls.length === 0 ? {} : { tool_calls: shown.calls.map((call, i) => toolCall(call, toolCallIds[i]!)) }),
    },
    logprobs,
    finish_reason: finish,
  })),
  usage,
})

type Delta = { role?: 'assistant'; content?: string | null; reasoning_content?: string; tool_calls?: (ReturnType<typeof toolCall> & { index: number })[] }

export const chunk = (head: Head, index: number, delta: Delta, options: { finish?: Finish; logprobs?: Logprobs | null; includeUsage: boolean }) => ({
  ...head,
  object: 'chat.completion.chunk' as const,
  choices: [{ index, delta, logprobs: options.logprobs ?? null, finish_reason: options.finish ?? null }],
  ...(options.includeUsage ? { usage: null } : {}),
})

export const usageChunk = (head: Head, usage: Usage) => ({ ...head, object: 'chat.completion.chunk' as const, choices: [], usage })

/** `calls`: how many calls came before this piece; `ids` are those of all calls. */
export const deltaOf = (piece: Piece, calls: number, ids: readonly string[]): Delta =>
  piece.type === 'content' ? { content: piece.text }
    : piece.type === 'reasoning' ? { reasoning_content: piece.text }
      : { tool_calls: piece.calls.map((call, i) => ({ index: calls + i, ...toolCall(call, ids[calls + i]!) })) }

const TYPES: Record<number, string> = { 401: 'authentication_error', 403: 'permission_error', 429: 'rate_limit_error' }

export type ErrorBody = { error: { message: string; type: string; param: string | null; code: string } }

/** What a client is told. A defect of ours says nothing of its inside. */
export const errorBody = (error: InstarError): ErrorBody => {
  const field = error.details['field']
  return {
    error: {
      message: error.code === 'internal' ? ERRORS.internal.meaning : error.message,
      type: TYPES[error.status] ?? (error.status >= 500 ? 'server_error' : 'invalid_request_error'),
      param: typeof field === 'string' ? field : null,
      code: error.code,
    },
  }
}

/** Both wordings by which agents know that they have to compact. */
export const contextLengthExceeded = (prompt: number, context: number): InstarError =>
  new InstarError('context_length_exceeded', `This model's maximum context length is ${context} tokens, of which at least one is for the answer. Your messages have ${prompt} tokens: prompt is too long: ${prompt} tokens > ${context - 1} maximum.`, { field: 'messages', prompt, context })

/** A route's error as one of ours; anything else is a defect. */
export const asInstarError = (error: unknown): InstarError => {
  if (error instanceof InstarError) return error.code === 'context_length_exceeded' ? new InstarError(error.code, error.message, { ...error.details, field: 'messages' }, { cause: error }) : error
  // What nests a client's JSON so deep is no defect of ours.
  if (error instanceof RangeError && error.message.includes('call stack')) return new InstarError('bad_request', 'The request is nested too deeply.', {}, { cause: error })
  return new InstarError('internal', error instanceof Error ? error.message : String(error), {}, { cause: error })
}
