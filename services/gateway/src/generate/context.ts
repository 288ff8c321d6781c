/** The context of one turn, which grows with each stage, and what the stages use. */
import type { Headers } from '@instar/agents'
import type { Dialect, Fields, Request, AnswerContext } from '@instar/dialects'
import type { Constraint, Model } from '@instar/engine/port'
import type { InstarError } from '@instar/events'
import type { ServerResponse } from 'node:http'
import type { Meter } from '../admin/metrics.ts'
import type { RequestSpan } from '../admin/spans.ts'
import type { Admission, AdmissionPorts } from '../prompt/admission.ts'
import type { Paced } from '../session/paced.ts'
import type { RecentRequests } from '../session/core/recent-requests.ts'
import type { Lease } from '../versions/pool.ts'
import type { Task } from './candidate.ts'
import type { ConstraintChecks } from './constraint-checks.ts'
import type { ModelRequest, RequestPorts } from './request.ts'

export type AnswerPorts = AdmissionPorts &
  RequestPorts & {
    model: Model
    now: () => number
    /** Bytes of a request body, also with the items that it refers to. */
    bodyLimit: number
    learning: boolean
    pingMs: number
    stalledMs: number
    meter: Meter
    recentRequests: RecentRequests
    readings: Paced
    checks: ConstraintChecks
    /** The engine's error while it is lost; null once it answers. */
    health: { lost: string | null }
  }

export type AnswerCall = {
  dialect: Dialect
  body: Uint8Array
  headers: Headers
  key: string | null
  /** False: turns of this key are captured but not trainable. */
  mayTrain: boolean
  segment: string | null
  /** A model that is not ours means the policy. The body is recorded as it was sent. */
  anyModel?: boolean
  /** A name that rollouts of one prompt share, so that they form one group. */
  prompt?: string
  /** The task of the episode that the URL names; '' if it is not known. */
  task?: string
  response: ServerResponse
  /** Called before a stream is written to `response`. */
  beforeStream?: () => void
  /** Aborted with the client's error when its API key is revoked. */
  revoked: AbortSignal
  onFault: (fault: InstarError) => void
  /** Counts memory that the request occupies besides its body. Throws `overloaded`. */
  hold: (bytes: number) => void
}

/** The complete response, or null if it was sent as a stream. Throws InstarError while nothing has been sent. */
export type AnswerReply = { headers: Record<string, string>; body: unknown } | null

export type Context = AnswerCall & ModelRequest & { span: RequestSpan | null; at: number }
/** `raw`: the body after its references to the log were resolved. */
export type Received = Context & { sent: Fields; raw: Uint8Array; request: Request; lease: Lease }
/** `stored`: resolves when the blobs that the record refers to are on the log. */
export type Prompted = Received & { admission: Admission; constraint: Constraint | null; stored: Promise<void> }
export type Prepared = Prompted & {
  tasks: readonly Task[]
  answerContext: AnswerContext
  replyHeaders: Record<string, string>
}
