/** Prompts of `/v1/completions` as token ids, what an answer repeats of them, and the limits of a request. */
import type { Model, ServingEngine } from '@instar/engine/port'
import { contextLengthExceeded, InstarError } from '@instar/events'
import { setImmediate as nextPass } from 'node:timers/promises'
import { leastTokens, textsBeyond } from '../prompt/core/overflow.ts'
import {
  heldBytes,
  MOST_COMPLETION_LOGPROBS,
  MOST_COMPLETION_TOKENS,
  type CompletionRequest,
  type ScoredToken,
} from './core/text-completion.ts'

/**
 * The ids of each prompt. Throws `context_length_exceeded` for a text that is certainly too long, before all of it is
 * encoded. Other requests are served between two texts. Throws the reason of `signal`.
 */
export const encoded = async (
  request: CompletionRequest,
  model: Model,
  signal: AbortSignal,
): Promise<(readonly number[])[]> => {
  const ids: (readonly number[])[] = []
  for (const prompt of request.prompts) {
    if (typeof prompt === 'string') {
      if (ids.length > 0) await nextPass()
      signal.throwIfAborted()
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

/** Tokens of a prompt in one piece of an answer. */
const PIECE_TOKENS = 256

/** `echoed`: the prompt's text. `logprobs`: how many alternatives each token has; null: no log-probs are asked for. */
export type EchoedPrompt = {
  prompt: readonly number[]
  echoed: string
  adapter: string | null
  logprobs: number | null
}

/**
 * A prompt in pieces: its text with its first tokens, then the others. `give` resolves once a piece needs no memory; until
 * then it counts with `hold`, from before the log-probs are computed. Throws as `hold` and `give`.
 */
export const echo = async (
  engine: Pick<ServingEngine, 'scoreWithTop'>,
  { prompt, echoed, adapter, logprobs }: EchoedPrompt,
  { hold, signal }: { hold: (bytes: number) => void; signal: AbortSignal },
  give: (text: string, tokens: readonly ScoredToken[], last: boolean) => Promise<void>,
): Promise<void> => {
  const perToken = logprobs === null ? 0 : heldBytes(0, 1 + logprobs)
  let held = heldBytes(echoed.length, 0) + perToken * prompt.length
  hold(held)
  try {
    const tokens =
      logprobs === null ? [] : await promptTokens(engine, { prompt, adapter, topLogprobs: logprobs }, signal)
    for (let at = 0; at === 0 || at < tokens.length; at += PIECE_TOKENS) {
      const piece = tokens.slice(at, at + PIECE_TOKENS)
      await give(at === 0 ? echoed : '', piece, at + PIECE_TOKENS >= tokens.length)
      const given = perToken * piece.length + (at === 0 ? heldBytes(echoed.length, 0) : 0)
      hold(-given)
      held -= given
    }
  } finally {
    hold(-held)
  }
}

/** The prompt's tokens with their log-probs; the first has none. */
const promptTokens = async (
  engine: Pick<ServingEngine, 'scoreWithTop'>,
  { prompt, adapter, topLogprobs }: { prompt: readonly number[]; adapter: string | null; topLogprobs: number },
  signal: AbortSignal,
): Promise<ScoredToken[]> => {
  const rest = prompt.slice(1)
  const { logprobs, top } = await engine.scoreWithTop!(
    { prompt: prompt.slice(0, 1), completion: rest, adapter, temperature: 1, topLogprobs },
    signal,
  )
  return [
    { id: prompt[0]!, logprob: null, top: [] },
    ...rest.map((id, at) => ({ id, logprob: logprobs[at]!, top: top[at] ?? [] })),
  ]
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
