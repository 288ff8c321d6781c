/**
 * Sessions of OpenClaw's that were refused. It does not ask the same again then: the user's prompt comes in a frame of its
 * own words ("[Queued user message from a previous active turn…"), so that the turn behind it says nothing of how such a
 * prompt is to be answered. In memory: a restart forgets them, and another gateway knows nothing of them.
 */
import { InstarError } from '@instar/events'
import { parseJson, type Dialect, type Fields, type Message } from '@instar/dialects'
import { labelOf, sessionOfLabel, type Headers } from './labels.ts'
import { isOpenClaw, toldSession } from './openclaw.ts'
import { kindOf } from './side.ts'

/** Sessions, the latest; each about 100 bytes. */
const REMEMBERED = 1024

export type Refused = { dialect: Pick<Dialect, 'messages'>; body: Uint8Array; headers: Headers; key: string | null; segment: string | null }
type Asking = { key: string | null; headers: Headers; body: Fields; segment: string | null; messages: readonly Message[] }

export class Rewritten {
  private readonly sessions = new Set<string>()
  private readonly most: number

  constructor(most = REMEMBERED) {
    this.most = most
  }

  /** A request for an answer got a fault with this status, and nothing else. */
  refused({ dialect, body, headers, key, segment }: Refused, status: number): void {
    if ((status !== 429 && status !== 503) || !mentionsOpenClaw(body)) return
    const fields = fieldsOf(body)
    if (fields === null) return
    const messages = dialect.messages(fields)
    const session = sessionSaid({ key, headers, body: fields, segment, messages })
    const tools = Array.isArray(fields['tools']) ? fields['tools'] : []
    if (session === null || kindOf(headers, { messages, tools }, null) === 'side') return
    this.sessions.delete(session)
    this.sessions.add(session)
    if (this.sessions.size > this.most) this.sessions.delete(this.sessions.keys().next().value!)
  }

  /** Whether this request is the first of its session since; from then on it is not. */
  take(asking: Asking): boolean {
    if (this.sessions.size === 0) return false
    const session = sessionSaid(asking)
    return session !== null && this.sessions.delete(session)
  }
}

/** By what is the same in the request and in its rewritten form: what it says itself of its session. */
const sessionSaid = ({ key, headers, body, segment, messages }: Asking): string | null => {
  if (!isOpenClaw(messages)) return null
  const said = labelOf(headers, body, segment)?.value ?? toldSession(messages)
  return said === null ? null : sessionOfLabel(key, said)
}

/** What is refused in a rush is not parsed for others' sake. */
const mentionsOpenClaw = (body: Uint8Array): boolean => {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return bytes.includes('running inside OpenClaw') || bytes.includes('<!-- openclaw:')
}

/** Null where it is no JSON object. */
const fieldsOf = (body: Uint8Array): Fields | null => {
  try {
    return parseJson(body)
  } catch (error) {
    if (error instanceof InstarError) return null
    throw error
  }
}
