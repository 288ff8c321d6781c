/** Anthropic Messages responses: objects, stream events and errors. https://docs.anthropic.com/en/api/messages */
import type { InstarError } from '@instar/events/errors'
import { fragments, type Call, type Choice, type TokenCounts, type Piece, type AnswerContext } from '../answer.ts'
import type { Frame, StreamEncoder } from '../dialect.ts'
import { clientMessage, streamMessage } from '../faults.ts'
import { isFields, type Fields } from '../fields.ts'
import { mintId } from '../minted.ts'
import { RAW_INPUT } from './request.ts'

/** The turn that the answer belongs to. */
type TurnRef = Pick<AnswerContext, 'session' | 'turn'>

/** `input_tokens` excludes tokens that were read from a cache or written to it, as Anthropic counts them. */
const usageOf = ({
  promptTokens,
  completionTokens,
  cachedTokens = 0,
  cacheWriteTokens = 0,
  reasoningTokens,
}: TokenCounts) => ({
  input_tokens: Math.max(0, promptTokens - cachedTokens - cacheWriteTokens),
  cache_creation_input_tokens: cacheWriteTokens,
  cache_read_input_tokens: cachedTokens,
  output_tokens: completionTokens,
  ...(reasoningTokens === undefined ? {} : { output_tokens_details: { thinking_tokens: reasoningTokens } }),
})

const messageOf = ({ session, turn, model, promptTokens }: AnswerContext) => ({
  id: mintId('msg', session, turn),
  type: 'message' as const,
  role: 'assistant' as const,
  model,
  content: [] as unknown[],
  stop_reason: null as string | null,
  stop_sequence: null as string | null,
  usage: usageOf({ promptTokens, completionTokens: 0 }),
})

const stopReason = ({ finish, stop }: Choice): string =>
  finish === 'tool_calls'
    ? 'tool_use'
    : finish === 'length'
      ? 'max_tokens'
      : stop === null
        ? 'end_turn'
        : 'stop_sequence'

/** The minted id of the reasoning's turn, in place of Anthropic's signature. It proves nothing. */
const signatureOf = ({ session, turn }: TurnRef): string => mintId('sealed', session, turn)

/** The arguments as an object; if they are not a JSON object, an object with their text in `RAW_INPUT`. */
const inputOf = (call: Call): unknown => {
  try {
    const value: unknown = JSON.parse(call.arguments)
    if (isFields(value)) return value
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return { [RAW_INPUT]: call.arguments }
}

/** The content blocks of an answer: reasoning, text, tool calls. */
export const blocksOf = (ref: TurnRef, { shown, toolCallIds }: Pick<Choice, 'shown' | 'toolCallIds'>): Fields[] => {
  const reasoning = shown.reasoning.trim()
  return [
    ...(reasoning === '' ? [] : [{ type: 'thinking', thinking: reasoning, signature: signatureOf(ref) }]),
    ...(shown.content === '' ? [] : [{ type: 'text', text: shown.content }]),
    ...shown.calls.map((call, i) => ({ type: 'tool_use', id: toolCallIds[i]!, name: call.name, input: inputOf(call) })),
  ]
}

export const messagesWhole = (
  context: AnswerContext,
  _request: unknown,
  [choice]: readonly Choice[],
  counts: TokenCounts,
) => {
  const message = messageOf(context)
  if (!choice) return message
  return {
    ...message,
    content: blocksOf(context, choice),
    stop_reason: stopReason(choice),
    stop_sequence: choice.stop,
    usage: usageOf(counts),
  }
}

const frame = (event: string, fields: object): Frame => ({ event, data: { type: event, ...fields } })

export const PING = frame('ping', {})

type Block = 'content' | 'reasoning'

export const messagesStream = (context: AnswerContext): StreamEncoder => {
  let started = false
  let index = 0
  let open: Block | null = null
  let calls = 0
  let last: Choice | null = null
  const start = (): Frame[] => {
    if (started) return []
    started = true
    return [frame('message_start', { message: messageOf(context) }), PING]
  }
  const close = (): Frame[] => {
    if (open === null) return []
    const signature =
      open === 'reasoning'
        ? [
            frame('content_block_delta', {
              index,
              delta: { type: 'signature_delta', signature: signatureOf(context) },
            }),
          ]
        : []
    open = null
    return [...signature, frame('content_block_stop', { index: index++ })]
  }
  const begin = (block: Block): Frame[] => {
    if (open === block) return []
    const closed = close()
    open = block
    return [
      ...closed,
      frame('content_block_start', {
        index,
        content_block:
          block === 'content' ? { type: 'text', text: '' } : { type: 'thinking', thinking: '', signature: '' },
      }),
    ]
  }
  const call = ({ name, arguments: text }: Call, id: string, input: unknown): Frame[] => {
    const json = isFields(input) && RAW_INPUT in input ? JSON.stringify(input) : text
    return [
      frame('content_block_start', { index, content_block: { type: 'tool_use', id, name, input: {} } }),
      ...fragments(json).map((partial_json) =>
        frame('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } }),
      ),
      frame('content_block_stop', { index: index++ }),
    ]
  }
  const framesOf = (piece: Piece, idOf: (call: number) => string): Frame[] => {
    if (piece.type === 'content')
      return [
        ...begin('content'),
        frame('content_block_delta', { index, delta: { type: 'text_delta', text: piece.text } }),
      ]
    if (piece.type === 'reasoning')
      return [
        ...begin('reasoning'),
        frame('content_block_delta', { index, delta: { type: 'thinking_delta', thinking: piece.text } }),
      ]
    return [...close(), ...piece.calls.flatMap((one) => call(one, idOf(calls++), inputOf(one)))]
  }
  return {
    piece: (_candidate, piece, _tokens, idOf) => [...start(), ...framesOf(piece, idOf)],
    finish(_candidate, choice) {
      last = choice
      return [...start(), ...close()]
    },
    end: (counts) => [
      frame('message_delta', {
        delta: { stop_reason: last === null ? 'end_turn' : stopReason(last), stop_sequence: last?.stop ?? null },
        usage: usageOf(counts),
      }),
      frame('message_stop', {}),
    ],
    fail: (fault) => [{ event: 'error', data: messagesError(fault, null, streamMessage(fault)) }],
  }
}

const TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The error object. `details` are set if the error has `clientDetails`, fields that Anthropic's clients read. */
export const messagesError = (fault: InstarError, requestId: string | null, message = clientMessage(fault)) => ({
  type: 'error' as const,
  error: {
    type: TYPES[fault.status] ?? (fault.status < 500 ? 'invalid_request_error' : 'api_error'),
    message,
    code: fault.code,
    ...(isFields(fault.details['clientDetails']) ? { details: fault.details['clientDetails'] } : {}),
  },
  ...(requestId === null ? {} : { request_id: requestId }),
})
