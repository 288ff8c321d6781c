/** Validates a request before it is queued. */
import { InstarError } from '@instar/events/errors'
import type { Capabilities, GenerateRequest, Sampling } from '@instar/engine/port'

function refuse(field: string, problem: string): never {
  throw new InstarError('bad_request', `${field} ${problem}.`, { field })
}

function checkIds(field: string, ids: readonly number[], vocabulary: number): void {
  for (const id of ids)
    if (!Number.isInteger(id) || id < 0 || id >= vocabulary)
      refuse(field, `holds ${id}, which is no token of this model`)
}

/** `total`: positions that must fit into the context. */
function checkLength(length: number, total: number, context: number): void {
  if (total > context)
    throw new InstarError(
      'context_length_exceeded',
      `The prompt has ${length} tokens; the context of this model is ${context}.`,
      { prompt: length, context },
    )
}

function checkSampling(sampling: Sampling): void {
  const { temperature, topP, topK, seed, maxTokens, stop } = sampling
  if (!(temperature >= 0 && temperature <= 100)) refuse('temperature', 'is not between 0 and 100')
  if (!(topP > 0 && topP <= 1)) refuse('top_p', 'is not above 0 and up to 1')
  if (!Number.isSafeInteger(topK) || topK < 0) refuse('top_k', 'is not a count')
  if (!Number.isSafeInteger(seed)) refuse('seed', 'is not a whole number')
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) refuse('max_tokens', 'is not a count above 0')
  if (stop.length > 64 || stop.some((text) => text.length > 1000))
    refuse('stop', 'has more than 64 texts or one longer than 1000 characters')
}

/** At least one new token must fit after the prompt. */
export function checkGenerate(request: GenerateRequest, { contextLength, vocabulary }: Capabilities): void {
  checkSampling(request.sampling)
  if (request.prompt.length === 0) refuse('prompt', 'is empty')
  checkIds('prompt', request.prompt, vocabulary)
  checkLength(request.prompt.length, request.prompt.length + 1, contextLength)
  const biased = request.reweighting?.logitBias.find(([id]) => id >= vocabulary)
  if (biased) refuse('logit_bias', `holds ${biased[0]}, which is no token of this model`)
  if (!Number.isSafeInteger(request.topLogprobs) || request.topLogprobs < 0 || request.topLogprobs > 100)
    refuse('top_logprobs', 'is not between 0 and 100')
}

export function checkScore(
  request: { prompt: readonly number[]; completion: readonly number[]; temperature: number },
  { contextLength, vocabulary }: Capabilities,
): void {
  if (!(request.temperature >= 0 && request.temperature <= 100)) refuse('temperature', 'is not between 0 and 100')
  if (request.prompt.length === 0) refuse('prompt', 'is empty')
  checkIds('prompt', request.prompt, vocabulary)
  checkIds('completion', request.completion, vocabulary)
  checkLength(request.prompt.length, request.prompt.length + request.completion.length, contextLength)
}
