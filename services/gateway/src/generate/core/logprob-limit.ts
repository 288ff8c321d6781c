import type { Request } from '@instar/dialects'
import { InstarError } from '@instar/events'

/** Log-probs in the answers to one request, which are in memory until its end and are converted without a pause. */
export const MOST_LOGPROBS = 1_000_000

/** `maxTokens`: the most tokens that each answer may have. Throws `bad_request`. */
export const checkAnswerLogprobs = (
  { logprobs, topLogprobs, n }: Pick<Request, 'logprobs' | 'topLogprobs' | 'n'>,
  maxTokens: number,
): void => {
  const most = logprobs ? n * maxTokens * (1 + topLogprobs) : 0
  if (most > MOST_LOGPROBS)
    throw new InstarError(
      'bad_request',
      `top_logprobs: the answer may have ${most} log-probs, and at most ${MOST_LOGPROBS} are returned: lower the number of tokens asked for, of answers, or top_logprobs.`,
      { field: 'top_logprobs' },
    )
}
