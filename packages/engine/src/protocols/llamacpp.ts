/**
 * llama.cpp's server: native `/completion` with token ids; wire format of tools/server at the end of 2026. Adapters are
 * GGUF files passed at its start; none can be added later.
 *
 * - The server sends no event for a token that ends inside a UTF-8 sequence. Its token count then differs from the
 *   number of ids, and the answer is returned as text.
 * - Stop strings are matched by the caller: the server buffers text for them and sends some of it twice.
 * - The grammar is applied after sampling: a token that does not match is sampled again under the grammar, but a token
 *   that matches has its log-prob without the grammar.
 */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { answerIds } from './answer-limits.ts'
import {
  errorOf,
  idsOf,
  list,
  EMPTY_DELTA,
  numberOr,
  textOr,
  NO_REWEIGHTING,
  type WireRequest,
  type Delta,
  type Protocol,
  type WireToken,
} from './wire.ts'

/** `{id, logprob}` before the samplers, `{id, prob}` after them. */
const logprobOf = (entry: JsonObject): number => {
  const prob = entry['prob']
  return typeof prob === 'number' ? (prob > 0 ? Math.log(prob) : Number.NaN) : numberOr(entry['logprob'], Number.NaN)
}

const topOf = (entry: JsonObject, count: number): WireToken['top'] =>
  list(entry['top_probs'] ?? entry['top_logprobs'])
    .filter(isJsonObject)
    .slice(0, count)
    .map((one) => ({ id: numberOr(one['id'], -1), logprob: logprobOf(one) }))

/** Greedy requests take log-probs before the samplers, since the sampled token has probability 1 after them. */
const afterSamplers = ({ sampling }: WireRequest): boolean => sampling.temperature > 0

const reader = ({ topLogprobs, sampling: { maxTokens } }: WireRequest) => {
  let predicted = 0
  return (event: JsonObject): Delta => {
    const error = errorOf(event)
    if (error) return { ...EMPTY_DELTA, error }
    const total = numberOr(event['tokens_predicted'], Number.NaN)
    const usage = Number.isNaN(total)
      ? null
      : { promptTokens: numberOr(event['tokens_evaluated'], 0), completionTokens: total }
    if (event['stop'] === true)
      return { ...EMPTY_DELTA, usage, finish: event['stop_type'] === 'limit' ? 'length' : 'stop' }
    const ids = answerIds(event['tokens'], maxTokens) ?? []
    const missing = ids.length === 0 || total !== predicted + ids.length
    predicted = Number.isNaN(total) ? predicted + ids.length : total
    if (missing) return { ...EMPTY_DELTA, usage, text: textOr(event['content'], '') }
    const entries = list(event['completion_probabilities']).filter(isJsonObject)
    return {
      ...EMPTY_DELTA,
      usage,
      tokens: ids.map((id, at) => {
        const entry = entries[at]
        return entry?.['id'] === id
          ? { id, logprob: logprobOf(entry), top: topOf(entry, topLogprobs) }
          : { id, logprob: Number.NaN, top: [] }
      }),
    }
  }
}

export const llamacpp: Protocol = {
  kind: 'llamacpp',
  ids: true,
  stopStrings: false,
  logprobsMasked: false,
  async identify(client) {
    const props = await client.get('/props')
    if (!props) throw new Error('/props returned no properties; the server may still be loading its model')
    const defaults = isJsonObject(props['default_generation_settings']) ? props['default_generation_settings'] : {}
    const files = list((await client.get('/lora-adapters'))?.['data']).filter(isJsonObject)
    const context = defaults['n_ctx']
    const slots = props['total_slots']
    return {
      version: textOr(props['build_info'], 'of unknown build'),
      model: textOr(props['model_alias'], textOr(props['model_path'], '').split('/').at(-1) ?? ''),
      contextLength: typeof context === 'number' ? context : null,
      concurrent: typeof slots === 'number' ? slots : null,
      adapterFault: files.length > 0 ? null : 'it was started without --lora and loads no adapters at run time',
    }
  },
  async tokenize(client, _, text) {
    const { status, body } = await client.post('/tokenize', { content: text, add_special: false, parse_special: false })
    return status === 200 ? idsOf(body?.['tokens']) : null
  },
  generate: (request) => {
    const { temperature, topP, topK, seed, maxTokens } = request.sampling
    const { frequencyPenalty, presencePenalty, repetitionPenalty, minP, logitBias } =
      request.reweighting ?? NO_REWEIGHTING
    return {
      path: '/completion',
      body: {
        prompt: [...request.prompt],
        n_predict: maxTokens,
        stream: true,
        return_tokens: true,
        cache_prompt: true,
        n_probs: Math.max(1, request.topLogprobs),
        post_sampling_probs: afterSamplers(request),
        // The default samplers differ, and the default order applies the temperature after the filters.
        samplers: request.reweighting
          ? ['penalties', 'temperature', 'min_p', 'top_k', 'top_p']
          : ['temperature', 'top_k', 'top_p'],
        temperature,
        top_k: topK,
        top_p: topP,
        min_p: minP,
        repeat_penalty: repetitionPenalty,
        presence_penalty: presencePenalty,
        frequency_penalty: frequencyPenalty,
        seed,
        // The default is the last 64 tokens.
        ...(request.reweighting ? { repeat_last_n: -1, logit_bias: logitBias.map((pair) => [...pair]) } : {}),
        lora: request.adapter === null ? [] : [{ id: Number(request.adapter), scale: 1 }],
        ...(request.grammar === undefined ? {} : { grammar: request.grammar }),
      },
    }
  },
  reader,
  score: null,
  next: null,
  adapter: {
    async load(client, { sha256 }) {
      const files = list((await client.get('/lora-adapters'))?.['data']).filter(isJsonObject)
      const file = files.find((one) => textOr(one['path'], '').includes(sha256.slice(0, 16)))
      if (file) return String(file['id'])
      throw new Error(
        `llama.cpp loads no adapters at run time; convert the adapter to GGUF, with ${sha256.slice(0, 16)} in the file's name, and start the server with --lora FILE --lora-init-without-apply`,
      )
    },
    unload: () => Promise.resolve(),
    list: () => Promise.resolve([]),
  },
  adapterUnknown: () => false,
}
