/**
 * SGLang 0.5.23: native `/generate` with token ids (its chat endpoint does not stream ids), adapters by
 * folder or from tensors (`sglang-adapters.ts`). Its log-probs include the temperature, but not top-p and top-k.
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
import { adapterUnknown, sglangAdapters } from './sglang-adapters.ts'

type Entry = { logprob: number; id: number }

/** Reads `[logprob | null, id, text | null]`. */
const entryOf = (value: unknown): Entry => {
  const [logprob, id] = list(value)
  return { logprob: numberOr(logprob, Number.NaN), id: numberOr(id, Number.NaN) }
}

/** The log-prob is NaN (not reported) if its entry has another id. */
const tokenOf = (id: number, entry: Entry | undefined, top: unknown, count: number): WireToken => ({
  id,
  logprob: entry?.id === id ? entry.logprob : Number.NaN,
  top: list(top).map(entryOf).slice(0, count),
})

const finishOf = (reason: unknown): Pick<Delta, 'finish' | 'error'> => {
  const type = isJsonObject(reason) ? reason['type'] : null
  if (type === 'abort')
    return {
      finish: null,
      error: {
        message: textOr((reason as JsonObject)['message'], 'aborted'),
        status: numberOr((reason as JsonObject)['status_code'], 0),
      },
    }
  return { finish: type === 'length' ? 'length' : type === 'stop' ? 'stop' : null, error: null }
}

/**
 * An event has all tokens generated so far, or only the new ones with `--incremental-streaming-output`. It has all if
 * its number of ids equals its token count.
 */
const reader = ({ topLogprobs, sampling: { maxTokens } }: WireRequest) => {
  let seen = 0
  return (event: JsonObject): Delta => {
    const error = errorOf(event)
    if (error) return { ...EMPTY_DELTA, error }
    const meta = isJsonObject(event['meta_info']) ? event['meta_info'] : {}
    const ids = answerIds(event['output_ids'], maxTokens)
    const total = numberOr(meta['completion_tokens'], Number.NaN)
    const usage = Number.isNaN(total)
      ? null
      : { promptTokens: numberOr(meta['prompt_tokens'], 0), completionTokens: total }
    const end = finishOf(meta['finish_reason'])
    if (!ids) return { ...EMPTY_DELTA, ...end, usage, text: textOr(event['text'], '') }
    const from = ids.length === total ? seen : 0
    seen = ids.length === total ? ids.length : seen + ids.length
    const logprobs = list(meta['output_token_logprobs'])
    const tops = list(meta['output_top_logprobs'])
    return {
      ...EMPTY_DELTA,
      ...end,
      usage,
      tokens: ids
        .slice(from)
        .map((id, at) =>
          tokenOf(
            id,
            logprobs[from + at] === undefined ? undefined : entryOf(logprobs[from + at]),
            tops[from + at],
            topLogprobs,
          ),
        ),
    }
  }
}

export const sglang: Protocol = {
  kind: 'sglang',
  ids: true,
  stopStrings: true,
  logprobsMasked: true,
  async identify(client) {
    const [info, server, models] = await Promise.all([
      // Older versions have the paths with `get_`.
      client.get('/model_info').then((body) => body ?? client.get('/get_model_info')),
      client.get('/server_info').then((body) => body ?? client.get('/get_server_info')),
      client.get('/v1/models'),
    ])
    if (!info || typeof info['model_path'] !== 'string')
      throw new Error('neither /model_info nor /get_model_info returned a model_path')
    const card = list(models?.['data']).find((one) => isJsonObject(one) && typeof one['max_model_len'] === 'number')
    return {
      version: textOr(server?.['version'], 'of unknown version'),
      model: textOr(info['served_model_name'], info['model_path']),
      contextLength: isJsonObject(card) ? numberOr(card['max_model_len'], 0) : null,
      concurrent: null,
      adapterFault: server?.['enable_lora'] === true ? null : 'it was started without --enable-lora',
    }
  },
  async tokenize(client, model, text) {
    const { status, body } = await client.post('/tokenize', { model, prompt: text, add_special_tokens: false })
    return status === 200 ? idsOf(body?.['tokens']) : null
  },
  generate: (request) => {
    const { temperature, topP, topK, seed, maxTokens, stop } = request.sampling
    const { frequencyPenalty, presencePenalty, repetitionPenalty, minP, logitBias } =
      request.reweighting ?? NO_REWEIGHTING
    return {
      path: '/generate',
      body: {
        input_ids: [...request.prompt],
        stream: true,
        return_logprob: true,
        logprob_start_len: -1,
        top_logprobs_num: request.topLogprobs,
        lora_path: request.adapter,
        sampling_params: {
          temperature,
          top_p: topP,
          top_k: topK === 0 ? -1 : topK,
          min_p: minP,
          repetition_penalty: repetitionPenalty,
          presence_penalty: presencePenalty,
          frequency_penalty: frequencyPenalty,
          ...(logitBias.length === 0 ? {} : { logit_bias: Object.fromEntries(logitBias) }),
          sampling_seed: seed,
          max_new_tokens: maxTokens,
          stop: [...stop],
          stop_token_ids: [...request.endOfTurn],
          skip_special_tokens: false,
          ...(request.grammar === undefined ? {} : { ebnf: request.grammar }),
        },
      },
    }
  },
  reader,
  score: {
    exclusive: false,
    call: ({ adapter, prompt, completion }) => ({
      path: '/generate',
      body: {
        input_ids: [...prompt, ...completion],
        stream: false,
        return_logprob: true,
        logprob_start_len: 0,
        lora_path: adapter,
        sampling_params: { temperature: 1, max_new_tokens: 1 },
      },
    }),
    /** One entry per id of prompt and completion. */
    read(body, { completion }) {
      const meta = isJsonObject(body['meta_info']) ? body['meta_info'] : {}
      const entries = list(meta['input_token_logprobs']).slice(-completion.length).map(entryOf)
      return entries.length === completion.length &&
        entries.every(({ id, logprob }, at) => id === completion[at] && Number.isFinite(logprob))
        ? entries.map(({ logprob }) => logprob)
        : null
    },
  },
  next: null,
  adapter: sglangAdapters,
  adapterUnknown: (_, body) => adapterUnknown(body),
}
