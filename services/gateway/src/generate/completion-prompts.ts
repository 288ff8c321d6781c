/** Prompts of `/v1/completions` as token ids, and the limits of a request. */
import type { Model } from '@instar/engine/port'
import { contextLengthExceeded, InstarError } from '@instar/events'
import { setImmediate as nextPass } from 'node:timers/promises'
import { leastTokens, textsBeyond } from '../prompt/core/overflow.ts'
import { MOST_COMPLETION_LOGPROBS, MOST_COMPLETION_TOKENS, type CompletionRequest } from './core/text-completion.ts'

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

/**
 * The texts of prompts that are echoed, each decoded once. `hold` counts their memory. Other requests are served before
 * each. Throws the reason of `signal`, and as `hold`.
 */
export const echoedTexts = async (
  prompts: readonly (readonly number[])[],
  model: Pick<Model, 'decode'>,
  { hold, signal }: { hold: (bytes: number) => void; signal: AbortSignal },
): Promise<string[]> => {
  const texts: string[] = []
  for (const prompt of prompts) {
    await nextPass()
    signal.throwIfAborted()
    const text = model.decode([...prompt])
    hold(2 * text.length)
    texts.push(text)
  }
  return texts
}

/** An answer that is not streamed is in memory until its end. Throws `bad_request`. */
export const checkSize = (
  prompts: readonly (readonly number[])[],
  { stream, logprobs, echo, n, maxTokens }: Pick<CompletionRequest, 'stream' | 'logprobs' | 'echo' | 'n' | 'maxTokens'>,
  { contextLength }: Pick<Model, 'contextLength'>,
): void => {
  if (stream) return
  const tokens = prompts.reduce(
    (sum, { length }) => sum + n * ((echo ? length : 0) + Math.min(maxTokens, contextLength - length)),
    0,
  )
  if (logprobs !== null && tokens * (1 + logprobs) > MOST_COMPLETION_LOGPROBS)
    throw new InstarError(
      'bad_request',
      `logprobs: the answer may have ${tokens * (1 + logprobs)} log-probs, and one that is not streamed at most ${MOST_COMPLETION_LOGPROBS}: send fewer prompts at a time.`,
      { field: 'logprobs' },
    )
  const limit = Math.max(MOST_COMPLETION_TOKENS, contextLength)
  if (tokens > limit)
    throw new InstarError(
      'bad_request',
      `max_tokens: the answer may have ${tokens} tokens${echo ? ' with the echoed prompts' : ''}, and one that is not streamed at most ${limit}: lower max_tokens or n, or send fewer prompts at a time.`,
      { field: 'max_tokens', limit },
    )
}
