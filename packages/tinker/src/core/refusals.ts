/** What a response that is no success means, by its status, its body and the words that servers use. */
import { InstarError, type ErrorCode } from '@instar/events/errors'
import { isJsonObject, parseJsonObject } from '@instar/events/json'

/** Characters of a server's message in an error. */
const QUOTED_CHARS = 300

/** The message in a body: FastAPI's `detail`, the SDK's `error`, or the text itself. `null`: the body has no message. */
export const messageIn = (text: string): string | null => {
  const body = parseJsonObject(text)
  if (!body) return null
  const { detail, error, message } = body
  const found = [detail, error, message].find((one) => one !== undefined && one !== null)
  if (found === undefined) return null
  if (typeof found === 'string') return found
  if (isJsonObject(found) && typeof found['message'] === 'string') return found['message']
  return JSON.stringify(found)
}

export const quoted = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > QUOTED_CHARS ? `${line.slice(0, QUOTED_CHARS)}…` : line
}

/** Words in messages of SkyRL 0.4.0 and of hosted servers; the first that fits counts. */
const WORDS: readonly (readonly [RegExp, ErrorCode])[] = [
  [/sequence number was reused|seq(uence)?[_ ]?(id|number)?.{0,40}(already|reused|conflict)/i, 'trainer_seq_used'],
  [/maximum number of lora adapters|no (free )?(adapter )?slots?|too many (models|adapters)/i, 'trainer_full'],
  [/checkpoint (not found|.{0,200}does not exist)|weights not found/i, 'trainer_state_lost'],
  [/loadweights is not permitted/i, 'trainer_model_lost'],
  [/session not found|session .{0,80}(expired|does not exist)/i, 'trainer_model_lost'],
  [/model (.{0,200} )?(is )?not (loaded|found)|model .{0,200}(does not exist|was unloaded)/i, 'trainer_model_lost'],
]

const codeOfWords = (message: string): ErrorCode | null => WORDS.find(([pattern]) => pattern.test(message))?.[1] ?? null

const withKey = (status: number): string =>
  status === 401 || status === 403 ? ' (INSTAR_TRAINER_KEY is missing or wrong)' : ''

/** The error of a request that ran and failed. `category` `user`: it would fail again. */
export const failure = (url: string, kind: string, message: string, category: string): InstarError =>
  new InstarError(
    codeOfWords(message) ?? (category === 'user' ? 'trainer_refused' : 'trainer_failed'),
    `${url}: ${kind} failed: ${quoted(message)}`,
    { kind, category },
  )

/** The error of a response of 4xx to a request of any kind. `what`: the request in words, where its `kind` does not say it. */
export const refusal = (url: string, what: string, status: number, text: string, kind = what): InstarError => {
  const message = messageIn(text) ?? text
  const code = codeOfWords(message) ?? (status === 409 ? 'trainer_seq_used' : 'trainer_refused')
  return new InstarError(code, `${url} answered ${what} with ${status}: ${quoted(message)}${withKey(status)}`, {
    status,
    kind,
    request: what,
  })
}

/** The status says that a retry may succeed. */
export const isTransient = (status: number): boolean =>
  status === 408 || status === 425 || status === 429 || status >= 500

/** A save was answered with 409 because its checkpoint exists, not because its seq was used. */
export const isSavedBefore = (status: number, text: string): boolean =>
  status === 409 && /already exists/i.test(messageIn(text) ?? text)
