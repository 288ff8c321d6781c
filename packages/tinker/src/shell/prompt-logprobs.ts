/** Whether a server's sampling gives the log-probs of the prompt, and from which token on. */
import { InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { SHORT } from '../core/probing.ts'
import { messageOf, ProtobufError, readFields } from '../core/protobuf.ts'
import { JSON_TYPE } from '../core/requests.ts'
import type { Capabilities } from '../port.ts'
import type { Futures, Outgoing } from './futures.ts'
import type { TinkerHttp } from './http.ts'

export const promptLogprobsOf = async (
  futures: Futures,
  http: TinkerHttp,
  session: string,
  base: string,
  signal?: AbortSignal,
): Promise<Capabilities['promptLogprobs']> => {
  const body = { session_id: session, sampling_session_seq_id: 0, base_model: base, type: 'create_sampling_session' }
  const path = '/api/v1/create_sampling_session'
  const response = await futures.ask('create_sampling_session', { method: 'POST', path, body }, signal)
  const sampler = parseJsonObject(http.textOf(response))?.['sampling_session_id']
  if (response.status !== 200 || typeof sampler !== 'string') return 'none'
  const tokens = SHORT.tokens
  const bytes = new TextEncoder().encode(
    JSON.stringify({
      sampling_session_id: sampler,
      seq_id: 1,
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens }] },
      sampling_params: { max_tokens: 1, temperature: 1, top_k: -1, top_p: 1, seed: 1 },
      prompt_logprobs: true,
      topk_prompt_logprobs: 0,
      type: 'sample',
    }),
  )
  const request: Outgoing = { kind: 'sample', path: '/api/v1/asample', bytes, contentType: JSON_TYPE, repeatable: true }
  try {
    const { bytes: result, contentType } = await futures.run(sampler, request, signal)
    const count = contentType.includes('protobuf') ? countInProtobuf(result) : countInJson(result)
    return count === tokens.length ? 'full' : count === tokens.length - 1 ? 'without_first' : 'none'
  } catch (error) {
    if (error instanceof ProtobufError) return 'none'
    if (error instanceof InstarError && (error.code === 'trainer_refused' || error.code === 'trainer_failed'))
      return 'none'
    throw error
  }
}

/** SampleResponse { prompt_logprobs = 2 (float32) }. */
const countInProtobuf = (result: Uint8Array): number => {
  const field = readFields(result).find(({ number }) => number === 2)
  return field ? messageOf(field).length / 4 : 0
}

const countInJson = (result: Uint8Array): number => {
  const values = parseJsonObject(Buffer.from(result).toString('utf8'))?.['prompt_logprobs']
  return Array.isArray(values) ? values.length : 0
}
