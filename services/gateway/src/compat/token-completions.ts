/**
 * `/generate` of Claw-R1: completions of token prompts. What was sampled is remembered, so that a step of
 * `/submit_steps` that repeats it is known as sampled here.
 */
import { contentSha, InstarError, type RecordedSampling } from '@instar/events'
import { fieldsOf, integer, number, parseJson, stopsOf, wrong, type Fields } from '@instar/dialects'
import type { AnswerReply } from '../generate/context.ts'
import { idsOf } from '../import/core/imported-request.ts'
import { SharedMemory } from './core/remembered.ts'
import type { CompatPorts } from './ports.ts'
import type { CompatCall } from './route.ts'

export type Sampled = {
  version: number
  adapter: string | null
  logprobs: Float32Array
  sampling: RecordedSampling
}

export type TokenCompletions = {
  complete(call: CompatCall): Promise<AnswerReply>
  /** What this gateway sampled; undefined: it did not, or has forgotten it. */
  sampled(prompt: readonly number[], ids: readonly number[]): Sampled | undefined
}

/** Of all keys. */
const MOST_REMEMBERED = { most: 4096, mostBytes: 16 * 1024 * 1024 }

export const createTokenCompletions = (ports: CompatPorts): TokenCompletions => {
  const { engine, model } = ports
  const remembered = new SharedMemory<Sampled>(MOST_REMEMBERED)
  const nameOf = (prompt: readonly number[], ids: readonly number[]): string =>
    contentSha(Buffer.from(JSON.stringify([prompt, ids])))

  const complete = (call: CompatCall): Promise<AnswerReply> => {
    const body = parseJson(call.body)
    const prompt = idsOf(body['prompt_ids'], 'prompt_ids') ?? []
    if (prompt.length === 0 || prompt.some((id) => id >= model.vocabulary))
      throw wrong('prompt_ids', "a list of at least one id of the model's")
    if (prompt.length >= model.contextLength)
      throw new InstarError(
        'context_length_exceeded',
        `The prompt has ${prompt.length} tokens, the model's context ${model.contextLength}.`,
        { field: 'prompt_ids' },
      )
    for (const field of ['image_data', 'video_data'])
      if (Array.isArray(body[field]) && body[field].length > 0) throw wrong(field, 'absent: this model takes text only')
    const { tokenExact, chat } = engine.capabilities()
    if (!tokenExact || chat === true) throw new InstarError('not_available', 'This engine takes messages, not tokens.')
    const sampling = samplingOf(fieldsOf(body['sampling_params'] ?? {}, 'sampling_params'), ports, prompt.length)
    return ports.requesting(call, async ({ controller: { signal }, enter }) => {
      const { version, adapter } = await enter(null)
      const ids: number[] = []
      const logprobs: number[] = []
      let reason: string | null = null
      for await (const piece of engine.generate(
        { prompt, sampling, adapter, topLogprobs: 0, hold: call.hold },
        signal,
      )) {
        signal.throwIfAborted()
        if (piece.type === 'tokens')
          for (const token of piece.tokens) {
            ids.push(token.id)
            logprobs.push(token.logprob)
          }
        else if (piece.type === 'end') reason = piece.reason
      }
      const kept = Float32Array.from(logprobs)
      remembered.set(
        call.key?.id ?? null,
        nameOf(prompt, ids),
        { version, adapter, logprobs: kept, sampling },
        kept.byteLength,
      )
      return {
        headers: { 'x-instar-version': String(version) },
        body: { token_ids: ids, log_probs: logprobs, stop_reason: reason, policy_version: version },
      }
    })
  }

  return { complete, sampled: (prompt, ids) => remembered.get(nameOf(prompt, ids)) }
}

const samplingOf = (params: Fields, { model, random }: CompatPorts, promptTokens: number): RecordedSampling => {
  const stop = params['stop']
  return {
    temperature: number(params, 'temperature', 0, 2) ?? 1,
    topP: number(params, 'top_p', 0, 1) ?? 1,
    topK: Math.max(0, integer(params, 'top_k', -1, 2 ** 31 - 1) ?? 0),
    seed: integer(params, 'seed', 0, 2 ** 31 - 1) ?? Buffer.from(random(4)).readUInt32LE() >>> 1,
    maxTokens: Math.min(
      integer(params, 'max_tokens', 1, Number.MAX_SAFE_INTEGER) ??
        integer(params, 'max_new_tokens', 1, Number.MAX_SAFE_INTEGER) ??
        Infinity,
      model.contextLength - promptTokens,
    ),
    stop: stopsOf(
      (Array.isArray(stop) ? stop : [stop]).filter((one) => typeof one === 'string' && one !== ''),
      'sampling_params.stop',
      'a text or ',
    ),
  }
}
