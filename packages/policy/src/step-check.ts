/** What an item of a step must be; checked before any computation. */
import { InstarError } from '@instar/events/errors'
import type { StepSettings, TrainItem } from '@instar/engine/port'

/** Logits divided by less leave the range of float32, and one such turn would make the loss of its batch NaN. */
const LEAST_TEMPERATURE = 1e-30

/** Of the model. */
type Limits = { contextLength: number; vocabulary: number }

/**
 * Throws `bad_request` for an invalid item and `context_length_exceeded` for one that does not fit the context or
 * `turnTokensMax`, with its index `at` as `item`; `field` is `prompt` or `hintPrompt`.
 */
export function checkItem(item: TrainItem, at: number, config: Limits, { turnTokensMax = 0 }: StepSettings): void {
  const bad = (problem: string): never => {
    throw new InstarError('bad_request', `turn ${at} of the batch ${problem}`, { item: at })
  }
  if (item.prompt.length === 0 || item.completion.length === 0) bad('has an empty prompt or completion')
  if (item.behaviourLogprobs.length !== item.completion.length)
    bad(`has ${item.completion.length} completion tokens and ${item.behaviourLogprobs.length} log-probabilities`)
  if (!item.behaviourLogprobs.every(Number.isFinite) || !Number.isFinite(item.advantage))
    bad('has a log-probability or an advantage that is not finite')
  if (!(item.temperature === 0 || item.temperature >= LEAST_TEMPERATURE))
    bad(`has the temperature ${item.temperature}, which is neither 0 nor at least ${LEAST_TEMPERATURE}`)
  const length = item.prompt.length + item.completion.length
  if (turnTokensMax > 0 && length > turnTokensMax)
    throw new InstarError(
      'context_length_exceeded',
      `turn ${at} of the batch has ${length} tokens; an update takes turns of at most ${turnTokensMax} (turnTokensMax)`,
      { item: at, field: 'prompt', tokens: length, context: turnTokensMax },
    )
  for (const [field, prompt] of [
    ['prompt', item.prompt],
    ['hintPrompt', item.hintPrompt ?? []],
  ] as const) {
    const tokens = prompt.length + item.completion.length
    if (tokens > config.contextLength) {
      const what = field === 'prompt' ? '' : ' with its hint'
      throw new InstarError(
        'context_length_exceeded',
        `turn ${at} of the batch${what} has ${tokens} tokens; the model's context has ${config.contextLength}`,
        { item: at, field, tokens, context: config.contextLength },
      )
    }
    for (const ids of [prompt, item.completion])
      if (ids.some((id) => !Number.isSafeInteger(id) || id < 0 || id >= config.vocabulary))
        bad(`has a token id outside the vocabulary of ${config.vocabulary}`)
  }
  if (item.hintPrompt !== null && item.hintPrompt.length === 0) bad('has an empty hint prompt')
}
