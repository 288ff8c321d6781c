/** Paths of other trainers' gateways. One entry for each, with the scope that its key needs. */
import type { InstarError } from '@instar/events'
import type { ServerResponse } from 'node:http'
import type { Key, Scope } from '../receive/core/keys.ts'
import type { Headers } from '@instar/agents'
import type { AnswerReply } from '../generate/completion.ts'

export type ForeignCall = {
  /** Null without keys. */
  key: Key | null
  params: Readonly<Record<string, string>>
  query: Readonly<Record<string, unknown>>
  headers: Headers
  body: Uint8Array
  /** As the client wrote it: scheme, host, port. */
  origin: string
  response: () => ServerResponse
  /** As AnswerCall's; who does not ask is cut off at once. */
  revoked: () => AbortSignal
  onFault: (fault: InstarError) => void
}

/** `handle` gives null where the answer went out as a stream. */
export type ForeignRoute = {
  method: 'GET' | 'POST'
  url: string
  scope: Scope
  handle(call: ForeignCall): Promise<AnswerReply>
}

export const json = (body: unknown): AnswerReply => ({ headers: {}, body })
