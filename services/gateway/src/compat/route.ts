/** Routes of other trainers' gateways. Each names the scope that its API key needs. */
import type { InstarError } from '@instar/events'
import type { ServerResponse } from 'node:http'
import type { Key, Scope } from '../receive/core/keys.ts'
import type { Headers } from '@instar/agents'
import type { AnswerReply } from '../generate/context.ts'

export type CompatCall = {
  /** Null without API keys. */
  key: Key | null
  params: Readonly<Record<string, string>>
  query: Readonly<Record<string, unknown>>
  headers: Headers
  body: Uint8Array
  /** The origin that the client used: scheme, host, port. */
  origin: string
  response: () => ServerResponse
  /** As in AnswerCall. Without a listener, the connection is cut as soon as the key is revoked. */
  revoked: () => AbortSignal
  onFault: (fault: InstarError) => void
  /** As in AnswerCall. */
  hold: (bytes: number) => void
}

/** `handle` returns null if it sent the response as a stream. */
export type CompatRoute = {
  method: 'GET' | 'POST'
  url: string
  scope: Scope
  handle(call: CompatCall): Promise<AnswerReply>
}

export const json = (body: unknown): AnswerReply => ({ headers: {}, body })
