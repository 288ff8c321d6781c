/** `/feedback`: sends the user's feedback on the last answer to the gateway. */
import type { Command } from './host.ts'
import type { Labels } from './labels.ts'
import { bearer, type Settings } from './settings.ts'

const TIMEOUT_MS = 30_000
const USAGE =
  'Usage: /feedback + [comment] (good), /feedback - [comment] (bad), or /feedback comment (what should be different).'
/** The reward of a comment without a sign. Negative, since the scorer derives hints from negative feedback only. */
const CORRECTION = -0.5

type ParsedFeedback = { value: number; comment: string | null }

/** Parses the arguments of `/feedback`; null if they are empty. */
export const readFeedback = (args: string): ParsedFeedback | null => {
  const [, sign = '', comment = ''] = /^\s*([+-](?=\s|$))?\s*([\s\S]*?)\s*$/.exec(args) ?? []
  if (sign === '' && comment === '') return null
  return { value: sign === '+' ? 1 : sign === '-' ? -1 : CORRECTION, comment: comment === '' ? null : comment }
}

const VERDICTS: Readonly<Record<number, string>> = { 1: 'good', [-1]: 'bad', [CORRECTION]: 'to be corrected' }

export const feedbackCommand = (settings: Settings, labels: Pick<Labels, 'lastTurn'>): Command => ({
  name: 'feedback',
  description:
    'Rates the last answer: + or -, with an optional comment; a comment alone says what should be different.',
  acceptsArgs: true,
  async handler({ args = '', sessionId }) {
    const feedback = readFeedback(args)
    if (feedback === null) return { text: USAGE }
    if (sessionId === undefined) return { text: 'There is no answer to rate yet: this conversation has no session.' }
    const turn = labels.lastTurn(sessionId)
    try {
      const answer = await fetch(`${settings.baseUrl}/feedback`, {
        method: 'POST',
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: { 'content-type': 'application/json', ...bearer(settings) },
        body: JSON.stringify({
          ...(turn === null ? { session_id: sessionId } : { turn_id: turn }),
          value: feedback.value,
          ...(feedback.comment === null ? {} : { comment: feedback.comment }),
        }),
      })
      if (answer.ok)
        return {
          text: `Recorded: the last answer was ${VERDICTS[feedback.value]}${feedback.comment === null ? '' : ', with your comment'}.`,
        }
      return { text: `Instar refused the feedback (HTTP ${answer.status}): ${messageOf(await answer.text())}` }
    } catch (error) {
      if (!(error instanceof Error)) throw error
      return { text: `Instar at ${settings.baseUrl} is unreachable: the feedback was not recorded.` }
    }
  },
})

/** The message of an error in OpenAI's format; the first 200 characters of any other body. */
const messageOf = (body: string): string => {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } }
    return typeof error?.message === 'string' ? error.message : body.slice(0, 200)
  } catch (error) {
    if (error instanceof SyntaxError) return body.slice(0, 200)
    throw error
  }
}
