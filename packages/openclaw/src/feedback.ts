/** `/feedback`: sends the user's feedback on the last answer to the gateway. */
import type { Command } from './host.ts'
import type { Labels } from './labels.ts'
import { bearer, type Settings } from './settings.ts'

const PATIENCE_MS = 30_000
const USAGE =
  'Say /feedback + (good), /feedback - (bad), either with words behind it, or /feedback and what should have been otherwise.'
/** Of words without a sign: they correct, and a hint is looked for behind reproaches alone. */
const CORRECTION = -0.5

export type Said = { value: number; comment: string | null }

/** Null: there is no feedback in the text. */
export const readFeedback = (args: string): Said | null => {
  const [, sign = '', words = ''] = /^\s*([+-](?=\s|$))?\s*([\s\S]*?)\s*$/.exec(args) ?? []
  if (sign === '' && words === '') return null
  return { value: sign === '+' ? 1 : sign === '-' ? -1 : CORRECTION, comment: words === '' ? null : words }
}

const VERDICTS: Readonly<Record<number, string>> = { 1: 'good', [-1]: 'bad', [CORRECTION]: 'to be corrected' }

export const feedbackCommand = (settings: Settings, labels: Pick<Labels, 'lastTurn'>): Command => ({
  name: 'feedback',
  description:
    'What the last answer was worth: + or -, with words if you like; words alone say what should have been otherwise.',
  acceptsArgs: true,
  async handler({ args = '', sessionId }) {
    const said = readFeedback(args)
    if (said === null) return { text: USAGE }
    if (sessionId === undefined)
      return { text: 'There is no session here yet: nothing was said that feedback could be about.' }
    const turn = labels.lastTurn(sessionId)
    try {
      const answer = await fetch(`${settings.baseUrl}/feedback`, {
        method: 'POST',
        signal: AbortSignal.timeout(PATIENCE_MS),
        headers: { 'content-type': 'application/json', ...bearer(settings) },
        body: JSON.stringify({
          ...(turn === null ? { session_id: sessionId } : { turn_id: turn }),
          value: said.value,
          ...(said.comment === null ? {} : { comment: said.comment }),
        }),
      })
      if (answer.ok)
        return {
          text: `Noted: the last answer was ${VERDICTS[said.value]}${said.comment === null ? '' : ', with your words'}.`,
        }
      return { text: `Instar did not take it (HTTP ${answer.status}): ${messageOf(await answer.text())}` }
    } catch (error) {
      if (!(error instanceof Error)) throw error
      return { text: `Instar at ${settings.baseUrl} cannot be reached: nothing was noted.` }
    }
  },
})

/** Of an error in OpenAI's shape; the beginning of anything else. */
const messageOf = (body: string): string => {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } }
    return typeof error?.message === 'string' ? error.message : body.slice(0, 200)
  } catch (error) {
    if (error instanceof SyntaxError) return body.slice(0, 200)
    throw error
  }
}
