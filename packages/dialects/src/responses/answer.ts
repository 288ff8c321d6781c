/** OpenAI Responses: response objects and stream events. https://platform.openai.com/docs/api-reference/responses */
import type { InstarError } from '@instar/events/errors'
import {
  fragments,
  type Call,
  type Choice,
  type TokenCounts,
  type Piece,
  type AnswerContext,
  type Token,
} from '../answer.ts'
import { hasLogprobs, logprobEntries } from '../chat/answer.ts'
import type { Frame, StreamEncoder } from '../dialect.ts'
import { streamMessage } from '../faults.ts'
import type { Fields } from '../fields.ts'
import { mintId } from '../minted.ts'
import type { Request } from '../request.ts'
import { callItem, customInput, itemsOf, messageItem, reasoningItem, textPart } from './items.ts'
import { includes } from './request.ts'

const usageOf = ({
  promptTokens,
  completionTokens,
  cachedTokens = 0,
  cacheWriteTokens = 0,
  reasoningTokens = 0,
}: TokenCounts) => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: promptTokens + completionTokens,
})

const isSealed = ({ body }: Request): boolean => includes(body, 'reasoning.encrypted_content')

/** The response object. It repeats the request's fields; sampling options are those that were used. */
const responseOf = (
  context: AnswerContext,
  { body }: Request,
  status: string,
  output: readonly Fields[],
  rest: Fields = {},
) => ({
  id: mintId('resp', context.session, context.turn),
  object: 'response',
  created_at: Math.floor(context.at / 1000),
  status,
  background: false,
  error: null,
  incomplete_details: null,
  instructions: body['instructions'] ?? null,
  max_output_tokens: body['max_output_tokens'] ?? null,
  max_tool_calls: null,
  model: context.model,
  output,
  parallel_tool_calls: body['parallel_tool_calls'] ?? true,
  previous_response_id: body['previous_response_id'] ?? null,
  prompt_cache_key: body['prompt_cache_key'] ?? null,
  reasoning: body['reasoning'] ?? { effort: null, summary: null },
  service_tier: 'default',
  store: body['store'] ?? true,
  temperature: context.sampling.temperature,
  text: body['text'] ?? { format: { type: 'text' } },
  tool_choice: body['tool_choice'] ?? 'auto',
  tools: body['tools'] ?? [],
  top_logprobs: body['top_logprobs'] ?? 0,
  top_p: context.sampling.topP,
  truncation: 'disabled',
  usage: null as unknown,
  user: body['user'] ?? null,
  metadata: body['metadata'] ?? {},
  ...rest,
})

const endedResponse = (context: AnswerContext, request: Request, choice: Choice | undefined, counts: TokenCounts) => {
  const cut = choice?.finish === 'length'
  const output = choice
    ? itemsOf(
        {
          ...context,
          shown: choice.shown,
          toolCallIds: choice.toolCallIds,
          shapes: request.shapes,
          sealed: isSealed(request),
        },
        cut ? 'incomplete' : 'completed',
        hasLogprobs(request, choice.tokens) ? logprobEntries(context, choice.tokens) : [],
      )
    : []
  return responseOf(context, request, cut ? 'incomplete' : 'completed', output, {
    usage: usageOf(counts),
    ...(cut ? { incomplete_details: { reason: 'max_output_tokens' } } : {}),
  })
}

export const responsesWhole = (
  context: AnswerContext,
  request: Request,
  [choice]: readonly Choice[],
  counts: TokenCounts,
) => endedResponse(context, request, choice, counts)

/** An output item that has begun. */
type OpenItem = { kind: 'message' | 'reasoning'; id: string; text: string; tokens: Token[] }

export const responsesStream = (context: AnswerContext, request: Request): StreamEncoder => {
  let sequence = 0
  let started = false
  let index = 0
  let open: OpenItem | null = null
  let calls = 0
  let last: Choice | undefined
  let messages = 0
  const frame = (event: string, fields: Fields): Frame => ({
    event,
    data: { type: event, sequence_number: sequence++, ...fields },
  })
  const start = (): Frame[] => {
    if (started) return []
    started = true
    const response = responseOf(context, request, 'in_progress', [])
    return [frame('response.created', { response }), frame('response.in_progress', { response })]
  }
  const at = (id: unknown): Fields => ({ item_id: id, output_index: index })
  const close = (status: 'completed' | 'incomplete' = 'completed'): Frame[] => {
    if (!open) return []
    const { kind, text, tokens } = open
    open = null
    if (kind === 'reasoning') {
      const item = reasoningItem(context, text.trim(), isSealed(request))
      const position = { ...at(item.id), summary_index: 0 }
      const part = { type: 'summary_text', text: text.trim() }
      const frames = [
        frame('response.reasoning_summary_text.done', { ...position, text: text.trim() }),
        frame('response.reasoning_summary_part.done', { ...position, part }),
        frame('response.output_item.done', { output_index: index, item }),
      ]
      index += 1
      return frames
    }
    const part = { ...textPart(text), logprobs: hasLogprobs(request, tokens) ? logprobEntries(context, tokens) : [] }
    const item = messageItem(context, status, [part], messages++)
    const position = { ...at(item.id), content_index: 0 }
    const frames = [
      frame('response.output_text.done', { ...position, text, logprobs: part.logprobs }),
      frame('response.content_part.done', { ...position, part }),
      frame('response.output_item.done', { output_index: index, item }),
    ]
    index += 1
    return frames
  }
  const begin = (kind: OpenItem['kind']): { open: OpenItem; frames: Frame[] } => {
    if (open?.kind === kind) return { open, frames: [] }
    const closed = close()
    const item =
      kind === 'reasoning' ? reasoningItem(context, '', false) : messageItem(context, 'in_progress', [], messages)
    const added = frame('response.output_item.added', { output_index: index, item })
    const part =
      kind === 'reasoning'
        ? frame('response.reasoning_summary_part.added', {
            ...at(item.id),
            summary_index: 0,
            part: { type: 'summary_text', text: '' },
          })
        : frame('response.content_part.added', { ...at(item.id), content_index: 0, part: textPart('') })
    open = { kind, id: item.id, text: '', tokens: [] }
    return { open, frames: [...closed, added, part] }
  }
  const text = (kind: OpenItem['kind'], delta: string, tokens: readonly Token[]): Frame[] => {
    const { open, frames } = begin(kind)
    open.text += delta
    open.tokens.push(...tokens)
    return [
      ...frames,
      kind === 'reasoning'
        ? frame('response.reasoning_summary_text.delta', { ...at(open.id), summary_index: 0, delta })
        : frame('response.output_text.delta', {
            ...at(open.id),
            content_index: 0,
            delta,
            logprobs: hasLogprobs(request, tokens) ? logprobEntries(context, tokens) : [],
          }),
    ]
  }
  const callFrames = (call: Call, callId: string): Frame[] => {
    const shape = request.shapes.get(call.name)
    const item = callItem(context, call, calls, callId, shape)
    const custom = shape?.kind === 'custom'
    const whole = custom ? customInput(call) : call.arguments
    const name = custom ? 'response.custom_tool_call_input' : 'response.function_call_arguments'
    const frames = [
      frame('response.output_item.added', {
        output_index: index,
        item: callItem(context, call, calls, callId, shape, false),
      }),
      ...fragments(whole).map((delta) => frame(`${name}.delta`, { ...at(item['id']), delta })),
      frame(`${name}.done`, {
        ...at(item['id']),
        ...(custom ? { input: whole } : { name: item['name'], arguments: whole }),
      }),
      frame('response.output_item.done', { output_index: index, item }),
    ]
    calls += 1
    index += 1
    return frames
  }
  const framesOf = (piece: Piece, tokens: readonly Token[], idOf: (call: number) => string): Frame[] =>
    piece.type === 'calls'
      ? [...close(), ...piece.calls.flatMap((call) => callFrames(call, idOf(calls)))]
      : text(piece.type === 'content' ? 'message' : 'reasoning', piece.text, tokens)
  return {
    piece: (_candidate, piece, tokens, idOf) => [...start(), ...framesOf(piece, tokens, idOf)],
    finish(_candidate, choice) {
      last = choice
      // An answer without calls has a message, even if it is empty.
      const empty =
        messages === 0 && open?.kind !== 'message' && choice.shown.calls.length === 0 ? begin('message').frames : []
      return [...start(), ...empty, ...close(choice.finish === 'length' ? 'incomplete' : 'completed')]
    },
    end(counts) {
      const response = endedResponse(context, request, last, counts)
      return [frame(`response.${response.status}`, { response })]
    },
    fail: (fault) => [
      ...start(),
      frame('response.failed', { response: responseOf(context, request, 'failed', [], { error: failureOf(fault) }) }),
    ],
  }
}

/** The error of a failed response, with OpenAI's codes for server errors and rate limits. */
const failureOf = (fault: InstarError) => ({
  code: fault.status >= 500 ? 'server_error' : fault.status === 429 ? 'rate_limit_exceeded' : fault.code,
  message: streamMessage(fault),
})
