/** How an operation is described. */
import type { z } from 'zod'
import type { Scope } from '../core/keys.ts'

export type Operation = {
  summary: string
  tag: 'answers' | 'sessions' | 'models' | 'dashboard' | 'admin' | 'health'
  /** The scope of the API key, where there are keys; null: any key; `none`: no key needed. */
  scope: Scope | null | 'none'
  body?: z.ZodType
  /** A missing body means `{}`. */
  bodyOptional?: true
  /** Schema of a 200 response; absent: the dialect's own. */
  reply?: z.ZodType
  /** The media type, if it is not JSON. */
  media?: string
  /** The response may be a stream of events or of lines. */
  streams?: 'text/event-stream' | 'application/x-ndjson'
  /** Other statuses that are not errors. */
  also?: Readonly<Record<string, { description: string; schema: z.ZodType }>>
}
