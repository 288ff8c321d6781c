/**
 * vLLM 0.32: `/v1/completions` with token ids, adapters by `/v1/load_lora_adapter`. Log-probs are those of the sampled
 * distribution only with `--logprobs-mode processed_logprobs`.
 */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { answerIds } from './answer-limits.ts'
import {
  errorOf,
  idsOf,
  list,
  listedAdapters,
  EMPTY_DELTA,
  numberOr,
  textOr,
  NO_REWEIGHTING,
  usageOf,
  type WireRequest,
  type Delta,
  type Protocol,
  type WireToken,
} from './wire.ts'

/** The log-prob that vLLM writes for a probability of zero. */
const ZERO_PROBABILITY = -9999

const sampling = ({
  sampling: { temperature, topP, topK, seed, maxTokens, stop },
  reweighting = NO_REWEIGHTING,
}: Pick<WireRequest, 'sampling' | 'reweighting'>): JsonObject => ({
  temperature,
  top_p: topP,
  top_k: topK,
  min_p: reweighting.minP,
  repetition_penalty: reweighting.repetitionPenalty,
  presence_penalty: reweighting.presencePenalty,
  frequency_penalty: reweighting.frequencyPenalty,
  ...(reweighting.logitBias.length === 0 ? {} : { logit_bias: Object.fromEntries(reweighting.logitBias) }),
  seed,
  max_tokens: maxTokens,
  stop: [...stop],
})

/** Without top-p, top-k, penalties and stop strings, also where the model's own defaults have them. */
const UNFILTERED = { topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] }

/** `token_id:17`, as `return_tokens_as_token_ids` writes a token. */
const idOf = (token: string): number => (token.startsWith('token_id:') ? Number(token.slice(9)) : Number.NaN)

const topOf = (value: unknown, count: number): WireToken['top'] =>
  !isJsonObject(value) || count === 0
    ? []
    : Object.entries(value)
        .map(([token, logprob]) => ({ id: idOf(token), logprob: numberOr(logprob, Number.NaN) }))
        .filter(({ id }) => Number.isSafeInteger(id))
        .sort((a, b) => b.logprob - a.logprob)
        .slice(0, count)

const tokensOf = (ids: readonly number[], logprobs: unknown, count: number): WireToken[] => {
  const reported = isJsonObject(logprobs) ? list(logprobs['token_logprobs']) : []
  const tops = isJsonObject(logprobs) ? list(logprobs['top_logprobs']) : []
  return ids.map((id, at) => {
    const logprob = numberOr(reported[at], Number.NaN)
    return { id, logprob: logprob > ZERO_PROBABILITY ? logprob : Number.NaN, top: topOf(tops[at], count) }
  })
}

const delta = (event: JsonObject, { topLogprobs, sampling: { maxTokens } }: WireRequest): Delta => {
  const error = errorOf(event)
  if (error !== null) return { ...EMPTY_DELTA, error }
  const choice = list(event['choices'])[0]
  const usage = usageOf(event['usage'])
  if (!isJsonObject(choice)) return { ...EMPTY_DELTA, usage }
  const ids = answerIds(choice['token_ids'], maxTokens)
  const finish = choice['finish_reason']
  return {
    tokens: ids ? tokensOf(ids, choice['logprobs'], topLogprobs) : [],
    text: ids ? '' : textOr(choice['text'], ''),
    // `abort` and `error` are errors, not finish reasons.
    finish: finish === 'length' ? 'length' : finish === 'stop' ? 'stop' : null,
    usage,
    error: finish === 'abort' || finish === 'error' ? { message: `finish_reason ${finish}`, status: 0 } : null,
  }
}

export const vllm: Protocol = {
  kind: 'vllm',
  ids: true,
  stopStrings: true,
  logprobsMasked: true,
  async identify(client, servedName) {
    // A request without a name loads nothing. The path exists only if loading at run time is enabled.
    const [models, version, load] = await Promise.all([
      client.get('/v1/models'),
      client.get('/version'),
      client.post('/v1/load_lora_adapter', {}),
    ])
    const cards = list(models?.['data']).filter(isJsonObject)
    const bases = cards.filter((card) => (card['parent'] ?? null) === null)
    const base = servedName === null ? bases[0] : bases.find((card) => card['id'] === servedName)
    if (!base)
      throw new Error(
        servedName === null
          ? '/v1/models lists no base model'
          : `/v1/models does not list ${JSON.stringify(servedName)}`,
      )
    const length = base['max_model_len']
    return {
      version: textOr(version?.['version'], 'of unknown version'),
      model: textOr(base['id'], ''),
      contextLength: typeof length === 'number' ? length : null,
      concurrent: null,
      adapterFault:
        load.status === 404 || load.status === 405
          ? 'it was started without --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1'
          : null,
    }
  },
  async tokenize(client, model, text) {
    const { status, body } = await client.post('/tokenize', { model, prompt: text, add_special_tokens: false })
    return status === 200 ? idsOf(body?.['tokens']) : null
  },
  generate: (request) => ({
    path: '/v1/completions',
    body: {
      model: request.adapter ?? request.model,
      prompt: [...request.prompt],
      ...sampling(request),
      stop_token_ids: [...request.endOfTurn],
      ...(request.grammar === undefined ? {} : { structured_outputs: { grammar: request.grammar } }),
      // 0: only the sampled token.
      logprobs: request.topLogprobs,
      return_token_ids: true,
      return_tokens_as_token_ids: true,
      skip_special_tokens: false,
      stream: true,
      stream_options: { include_usage: true },
    },
  }),
  reader: (request) => (event) => delta(event, request),
  score: {
    // vLLM 0.32.0 on a CPU with adapters crashes on `prompt_logprobs` while another request runs.
    exclusive: true,
    call: ({ model, adapter, prompt, completion }) => ({
      path: '/v1/completions',
      body: {
        model: adapter ?? model,
        prompt: [...prompt, ...completion],
        max_tokens: 1,
        temperature: 1,
        prompt_logprobs: 0,
        return_token_ids: true,
        stream: false,
      },
    }),
    /** One entry per id, null for the first; each maps ids to `{logprob}`. */
    read(body, { prompt, completion }) {
      const choice = list(body['choices'])[0]
      const entries = isJsonObject(choice) ? list(choice['prompt_logprobs']) : []
      const logprobs = completion.map((id, at) => {
        const entry = entries[prompt.length + at]
        const token = isJsonObject(entry) ? entry[String(id)] : undefined
        return isJsonObject(token) ? numberOr(token['logprob'], Number.NaN) : Number.NaN
      })
      return logprobs.some(Number.isNaN) ? null : logprobs
    },
  },
  next: {
    // `logprob_token_ids` needs `logprobs`; some versions require that it is their number.
    call: ({ model, adapter, prompt, ids, temperature }) => ({
      path: '/v1/completions',
      body: {
        model: adapter ?? model,
        prompt: [...prompt],
        ...sampling({ sampling: { ...UNFILTERED, temperature } }),
        logprobs: ids.length,
        logprob_token_ids: [...ids],
        return_tokens_as_token_ids: true,
        stream: false,
      },
    }),
    read(body, { ids }) {
      const choice = list(body['choices'])[0]
      const logprobs = isJsonObject(choice) ? choice['logprobs'] : null
      const [tops] = isJsonObject(logprobs) ? list(logprobs['top_logprobs']) : []
      const found = isJsonObject(tops) ? ids.map((id) => numberOr(tops[`token_id:${id}`], Number.NaN)) : []
      return found.length === 0 || found.some(Number.isNaN) ? null : found
    },
  },
  adapter: {
    async load(client, { name, folder }) {
      const { status, text } = await client.post('/v1/load_lora_adapter', { lora_name: name, lora_path: folder })
      if (status === 200 || (status === 400 && /already (been )?loaded/i.test(text))) return name
      throw new Error(`/v1/load_lora_adapter returned ${status}: ${text.slice(0, 300)}`)
    },
    async unload(client, name) {
      await client.post('/v1/unload_lora_adapter', { lora_name: name })
    },
    list: listedAdapters,
  },
  adapterUnknown: (status, body) => status === 404 && /does not exist/i.test(body),
}
