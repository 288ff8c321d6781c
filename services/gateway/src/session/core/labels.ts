/** The session that a request names, and the names of new sessions. */
import { agentSession, header, type Headers, type Message } from '@instar/agents'
import { contentText, derivedId, subjectOfKey, subjectOfSession, type LabelSource } from '@instar/events'
import { isFields, sessionOfMetadata, type Fields } from '@instar/dialects'

/**
 * A cache key groups requests with a common prefix: those of an application, of a user (often a UUID), or of one agent
 * run. It names a session only if it has such a prefix.
 */
const SESSION_KEY = /^(ses|sess|thread|conv|session)[_-]\w{6,}/i

export type Label = { source: Extract<LabelSource, 'header' | 'agent'>; value: string }

/** `segment`: the session of a URL under /s/<session>. */
export const labelOf = (headers: Headers, body: Fields, segment: string | null): Label | null => {
  const ours = header(headers, 'x-session-id') ?? segment ?? header(headers, 'x-instar-session-id')
  if (ours !== null) return { source: 'header', value: ours }
  const named = agentSession(headers)
  if (named !== null) return { source: 'agent', value: named }
  const metadata = isFields(body['metadata']) ? body['metadata'] : {}
  for (const value of [
    body['session_id'],
    metadata['session_id'],
    sessionOfMetadata(metadata),
    sessionKey(body['prompt_cache_key']),
  ]) {
    if (typeof value === 'string' && value.trim() !== '') return { source: 'agent', value: value.trim() }
  }
  return null
}

const sessionKey = (value: unknown): unknown => (typeof value === 'string' && SESSION_KEY.test(value) ? value : null)

/** Begins as the names of sessions of a key that `instar keys` made. */
const OF_A_KEY = /^[0-9a-f]{12}_/

/**
 * The session of a label, within the key's scope, so that neither another key nor a request without one can name a key's
 * session. An id that this gateway issued to the same key names itself. Key ids contain no underscore.
 */
export const sessionOfLabel = (key: string | null, value: string): string => {
  const isName = /^[A-Za-z0-9_-]{1,96}$/.test(value) && (key !== null || !OF_A_KEY.test(value))
  const name = isName ? value : hashOf(value)
  return key === null || name.startsWith(`${key}_`) ? name : `${key}_${name}`
}

/** The session of a label whose name a session of another key, or of requests without one, has already. */
export const sessionBesideOther = (key: string | null, value: string): string =>
  newSession(key, hashOf(`${key ?? ''} ${value}`))

const hashOf = (value: string): string => derivedId('label', Buffer.from(value).toString('base64')).slice(0, 32)

/** `random`: 32 hex digits. */
export const newSession = (key: string | null, random: string): string => (key === null ? random : `${key}_${random}`)

/** A name for a request and its repetitions, the same on every gateway. */
export const wholeSession = (key: string | null, digest: string): string =>
  newSession(key, derivedId('whole', key ?? '', digest).slice(0, 32))

/**
 * A name for a conversation whose answers come from elsewhere, derived from its beginning (system messages, first user
 * message, first answer), so that every gateway chooses the same name.
 */
export const fingerprintSession = (key: string | null, messages: readonly Message[]): string => {
  const begins = [
    messages
      .filter(({ role }) => role === 'system' || role === 'developer')
      .map(({ content }) => contentText(content).trim()),
    ...['user', 'assistant'].map((role) =>
      contentText(messages.find((message) => message.role === role)?.content).trim(),
    ),
  ]
  return newSession(key, derivedId('fingerprint', key ?? '', JSON.stringify(begins)).slice(0, 32))
}

/** The subject: the person who wrote the user's messages. */
export const subjectOf = (user: string | null, key: string | null, session: string): string =>
  user !== null && user !== ''
    ? derivedId('subject', 'user', key ?? '', Buffer.from(user).toString('base64'))
    : key !== null
      ? subjectOfKey(key)
      : subjectOfSession(session)

/** Rollouts of one prompt with equal `digest` are candidates of one group, also across sessions. */
export const promptGroup = (key: string | null, prompt: string, digest: string): string =>
  derivedId('prompt', key ?? '', Buffer.from(prompt).toString('base64'), digest).slice(0, 32)
