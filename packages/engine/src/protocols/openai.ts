/**
 * Any server with OpenAI's `/v1/chat/completions`. It reports no token ids, so its turns are not trained on. Reasoning
 * (`reasoning_content` or `reasoning`) and tool calls are converted to the markup of the embedded models, so that
 * dialects and the log handle one form of answer.
 */
import { InstarError } from '@instar/events'
import { callMarkup } from '@instar/grammar'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { answerBytesMax, CALLS_MAX } from './answer-limits.ts'
import {
  errorOf,
  list,
  EMPTY_DELTA,
  numberOr,
  textOr,
  usageOf,
  type Delta,
  type Protocol,
  type WireRequest,
} from './wire.ts'

type PartialCall = { name: string; arguments: string }

/** Missing arguments become an empty object, since clients parse the arguments as JSON. */
const markupOf = (call: PartialCall): string =>
  `\n${callMarkup(call.arguments.trim() === '' ? { ...call, arguments: '{}' } : call)}`

const reader = ({ sampling: { maxTokens } }: WireRequest) => {
  const maxBytes = answerBytesMax(maxTokens)
  let bytes = 0
  let reasoning = false
  const calls = new Map<number, PartialCall>()
  const textOf = (delta: JsonObject): string => {
    let text = ''
    const reasoningText = textOr(delta['reasoning_content'] ?? delta['reasoning'], '')
    if (reasoningText !== '') {
      text += reasoning ? reasoningText : `<think>${reasoningText}`
      reasoning = true
    }
    const content = textOr(delta['content'], '') + textOr(delta['refusal'], '')
    if (content !== '') {
      text += reasoning ? `</think>\n\n${content}` : content
      reasoning = false
    }
    return text
  }
  const collect = (delta: JsonObject): void => {
    for (const [at, call] of list(delta['tool_calls']).filter(isJsonObject).entries()) {
      const index = numberOr(call['index'], at)
      const partial = calls.get(index) ?? { name: '', arguments: '' }
      // Calls are passed on at the end of the answer, so their size is limited here.
      const called = isJsonObject(call['function']) ? call['function'] : {}
      const name = textOr(called['name'], '')
      const args = textOr(called['arguments'], '')
      bytes += name.length + args.length
      if (bytes > maxBytes || calls.size > CALLS_MAX)
        throw new InstarError(
          'engine_lost',
          `The engine's answer has more than ${maxBytes} bytes or ${CALLS_MAX} tool calls.`,
        )
      calls.set(index, { name: partial.name + name, arguments: partial.arguments + args })
    }
  }
  return (event: JsonObject): Delta => {
    const error = errorOf(event)
    if (error) return { ...EMPTY_DELTA, error }
    const usage = usageOf(event['usage'])
    const choice = list(event['choices'])[0]
    if (!isJsonObject(choice)) return { ...EMPTY_DELTA, usage }
    // An answer that is not streamed has `message` in place of `delta`.
    const message = choice['delta'] ?? choice['message']
    const delta = isJsonObject(message) ? message : {}
    let text = textOf(delta)
    collect(delta)
    const finish = choice['finish_reason'] ?? null
    if (finish !== null) {
      if (reasoning) text += '</think>'
      reasoning = false
      text += [...calls.values()].map(markupOf).join('')
    }
    return { ...EMPTY_DELTA, text, usage, finish: finish === null ? null : finish === 'length' ? 'length' : 'stop' }
  }
}

export const openai: Protocol = {
  kind: 'openai',
  ids: false,
  stopStrings: true,
  logprobsMasked: false,
  async identify(client, servedName) {
    const cards = list((await client.get('/v1/models'))?.['data']).filter(isJsonObject)
    const card = servedName === null ? cards[0] : cards.find((one) => one['id'] === servedName)
    const model = servedName ?? textOr(card?.['id'], '')
    if (model === '') throw new Error('/v1/models lists no model; set INSTAR_ENGINE_MODEL')
    const length = card?.['max_model_len'] ?? card?.['context_length']
    return {
      version: 'compatible',
      model,
      contextLength: typeof length === 'number' ? length : null,
      concurrent: null,
      adapterFault: 'adapters require vllm+ or sglang+',
    }
  },
  tokenize: () => Promise.resolve(null),
  generate: ({ model, sampling, chat }) => {
    const { temperature, topP, topK, seed, stop } = sampling
    const { stream, messages, tools, fields } = chat ?? { stream: true, messages: [], tools: [], fields: {} }
    return {
      path: '/v1/chat/completions',
      body: {
        model,
        messages,
        stream,
        ...(stream ? { stream_options: { include_usage: true } } : {}),
        seed,
        // Values equal to the interface's defaults are omitted: some models reject them.
        ...(temperature === 1 ? {} : { temperature }),
        ...(topP === 1 ? {} : { top_p: topP }),
        ...(topK === 0 ? {} : { top_k: topK }),
        ...(stop.length === 0 ? {} : { stop: [...stop] }),
        ...(tools.length === 0 ? {} : { tools }),
        ...fields,
      },
    }
  },
  reader,
  score: null,
  next: null,
  adapter: null,
  adapterUnknown: () => false,
}
