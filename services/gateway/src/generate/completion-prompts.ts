/** Prompts of `/v1/completions` as token ids, and the limits of a request. */
import type { Model } from '@instar/engine/port'
import { contextLengthExceeded, InstarError } from '@instar/events'
import { setImmediate as nextPass } from 'node:timers/promises'
import { leastTokens, textsBeyond } from '../prompt/core/overflow.ts'
import { MOST_COMPLETION_LOGPROBS, type CompletionRequest } from './core/text-completion.ts'

/**
 * The ids of each prompt. Throws `context_length_exceeded` for a text that is certainly too long, before all of it is
 * encoded. Other requests are served between two texts.
 */
export const encoded = async (request: CompletionRequest, model: Model): Promise<(readonly number[])[]> => {
  const ids: (readonly number[])[] = []
  for (const prompt of request.prompts) {
    if (typeof prompt === 'string') {
      if (ids.length > 0) await nextPass()
      const least = leastTokens(prompt.length, model)
      const beyond = least > model.contextLength ? least : textsBeyond([prompt], model)
      if (beyond !== null) throw contextLengthExceeded(beyond, model.contextLength)
    }
    ids.push(typeof prompt === 'string' ? model.encode(prompt) : prompt)
    checkPrompt(ids.at(-1)!, request, model)
  }
  return ids
}

const checkPrompt = (
  prompt: readonly number[],
  { maxTokens }: CompletionRequest,
  { vocabulary, contextLength }: Model,
): void => {
  const foreign = prompt.find((id) => id >= vocabulary)
  if (foreign !== undefined)
    throw new InstarError('bad_request', `prompt holds ${foreign}, which is no token of this model.`, {
      field: 'prompt',
    })
  if (prompt.length === 0) throw new InstarError('bad_request', 'prompt has no tokens.', { field: 'prompt' })
  if (prompt.length + Math.min(1, maxTokens) > contextLength) throw contextLengthExceeded(prompt.length, contextLength)
}

/** An answer that is not streamed is in memory until its end. Throws `bad_request`. */
export const checkLogprobs = (
  prompts: readonly (readonly number[])[],
  { stream, logprobs, echo, n, maxTokens }: Pick<CompletionRequest, 'stream' | 'logprobs' | 'echo' | 'n' | 'maxTokens'>,
  { contextLength }: Pick<Model, 'contextLength'>,
): void => {
  if (stream || logprobs === null) return
  const tokens = prompts.reduce(
    (sum, { length }) => sum + n * ((echo ? length : 0) + Math.min(maxTokens, contextLength - length)),
    0,
  )
  if (tokens * (1 + logprobs) > MOST_COMPLETION_LOGPROBS)
    throw new InstarError(
      'bad_request',
      `logprobs: the answer may have ${tokens * (1 + logprobs)} log-probs, and one that is not streamed at most ${MOST_COMPLETION_LOGPROBS}: send fewer prompts at a time.`,
      { field: 'logprobs' },
    )
}
