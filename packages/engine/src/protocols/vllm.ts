/**
 * vLLM 0.32: `/v1/completions` with token ids in and out, adapters by `/v1/load_lora_adapter`. Log-probs are those of
 * the sampled distribution only with `--logprobs-mode processed_logprobs`.
 */
import { isJsonObject, type JsonObject } from '@instar/events/json'
import {
  errorOf,
  idsOf,
  list,
  EMPTY_DELTA,
  numberOr,
  textOr,
  UNWEIGHTED,
  usageOf,
  type WireRequest,
  type Delta,
  type Protocol,
  type WireToken,
} from './wire.ts'

/** What vLLM writes for a probability of zero. */
const IMPOSSIBLE = -9999

const sampling = ({
  sampling: { temperature, topP, topK, seed, maxTokens, stop },
  reweighting = UNWEIGHTED,
}: WireRequest): JsonObject => ({
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
  const given = isJsonObject(logprobs) ? list(logprobs['token_logprobs']) : []
  const tops = isJsonObject(logprobs) ? list(logprobs['top_logprobs']) : []
  return ids.map((id, at) => {
    const logprob = numberOr(given[at], Number.NaN)
    return { id, logprob: logprob > IMPOSSIBLE ? logprob : Number.NaN, top: topOf(tops[at], count) }
  })
}

const delta = (event: JsonObject, count: number): Delta => {
  const error = errorOf(event)
  if (error !== null) return { ...EMPTY_DELTA, error }
  const choice = list(event['choices'])[0]
  const usage = usageOf(event['usage'])
  if (!isJsonObject(choice)) return { ...EMPTY_DELTA, usage }
  const ids = idsOf(choice['token_ids'])
  const finish = choice['finish_reason']
  return {
    tokens: ids ? tokensOf(ids, choice['logprobs'], count) : [],
    text: ids ? '' : textOr(choice['text'], ''),
    // An aborted answer has no finish reason of the port.
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
  async identify(client, named) {
    // Without a name nothing is loaded; the path exists only where loading is enabled.
    const [models, version, load] = await Promise.all([
      client.get('/v1/models'),
      client.get('/version'),
      client.post('/v1/load_lora_adapter', {}),
    ])
    const cards = list(models?.['data']).filter(isJsonObject)
    const bases = cards.filter((card) => (card['parent'] ?? null) === null)
    const base = named === null ? bases[0] : bases.find((card) => card['id'] === named)
    if (!base)
      throw new Error(
        named === null ? '/v1/models lists no base model' : `/v1/models does not list ${JSON.stringify(named)}`,
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
  generate: (asked) => ({
    path: '/v1/completions',
    body: {
      model: asked.adapter ?? asked.model,
      prompt: [...asked.prompt],
      ...sampling(asked),
      stop_token_ids: [...asked.endOfTurn],
      ...(asked.grammar === undefined ? {} : { structured_outputs: { grammar: asked.grammar } }),
      // 0: the sampled token alone.
      logprobs: asked.topLogprobs,
      return_token_ids: true,
      return_tokens_as_token_ids: true,
      skip_special_tokens: false,
      stream: true,
      stream_options: { include_usage: true },
    },
  }),
  reader:
    ({ topLogprobs }) =>
    (event) =>
      delta(event, topLogprobs),
  score: {
    // 0.32.0 on a CPU with adapters crashes on `prompt_logprobs` while any other request runs.
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
        const said = isJsonObject(entry) ? entry[String(id)] : undefined
        return isJsonObject(said) ? numberOr(said['logprob'], Number.NaN) : Number.NaN
      })
      return logprobs.some(Number.isNaN) ? null : logprobs
    },
  },
  adapter: {
    async load(client, { name, folder }) {
      const { status, text } = await client.post('/v1/load_lora_adapter', { lora_name: name, lora_path: folder })
      if (status === 200 || (status === 400 && /already (been )?loaded/i.test(text))) return name
      throw new Error(`/v1/load_lora_adapter answered ${status}: ${text.slice(0, 300)}`)
    },
    async unload(client, name) {
      await client.post('/v1/unload_lora_adapter', { lora_name: name })
    },
  },
  adapterUnknown: (status, said) => status === 404 && /does not exist/i.test(said),
}
