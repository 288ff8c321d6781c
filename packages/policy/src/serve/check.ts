/** Validates a request before it is queued. */
import { InstarError } from '@instar/events/errors'
import type { Capabilities, GenerateRequest, Sampling } from '@instar/engine/port'

function refuse(field: string, problem: string): never {
  throw new InstarError('bad_request', `${field} ${problem}.`, { field })
}

function checkIds(field: string, ids: readonly number[], vocabulary: number): void {
  for (const id of ids)
    if (!Number.isInteger(id) || id < 0 || id >= vocabulary)
      refuse(field, `contains ${id}, which is not a token id of this model (0 to ${vocabulary - 1})`)
}

/** `total`: number of positions that must fit the context. */
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
  if (!(topP > 0 && topP <= 1)) refuse('top_p', 'is not greater than 0 and at most 1')
  if (!Number.isSafeInteger(topK) || topK < 0) refuse('top_k', 'is not an integer of 0 or more')
  if (!Number.isSafeInteger(seed)) refuse('seed', 'is not an integer')
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) refuse('max_tokens', 'is not an integer of 1 or more')
  if (stop.length > 64 || stop.some((text) => text.length > 1000))
    refuse('stop', 'has more than 64 strings or a string longer than 1000 characters')
}

/**
 * Throws `bad_request` for invalid values, and `context_length_exceeded` unless the prompt and one more token fit the
 * context.
 */
export function checkGenerate(request: GenerateRequest, { contextLength, vocabulary }: Capabilities): void {
  checkSampling(request.sampling)
  if (request.prompt.length === 0) refuse('prompt', 'is empty')
  checkIds('prompt', request.prompt, vocabulary)
  checkLength(request.prompt.length, request.prompt.length + 1, contextLength)
  const biased = request.reweighting?.logitBias.find(([id]) => id >= vocabulary)
  if (biased)
    refuse('logit_bias', `contains ${biased[0]}, which is not a token id of this model (0 to ${vocabulary - 1})`)
  if (!Number.isSafeInteger(request.topLogprobs) || request.topLogprobs < 0 || request.topLogprobs > 100)
    refuse('top_logprobs', 'is not between 0 and 100')
}

/** Throws like `checkGenerate`; prompt and completion must fit the context. */
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
