import type { EventLog, TurnReader } from '@instar/log'
import type { DIALECTS } from '@instar/dialects'
import type { Model, ServingEngine } from '@instar/engine/port'
import type { WeightLine } from '@instar/events'
import type { AnswerCall, AnswerReply } from '../generate/context.ts'
import type { ModelRequest } from '../generate/request.ts'
import type { Capture } from '../capture/capture.ts'
import type { SessionIndex } from '../session/core/session-index.ts'
import type { Pool } from '../versions/pool.ts'
import type { Tail } from '../session/tail.ts'
import type { CompatCall } from './route.ts'

export type CompatPorts = {
  log: EventLog
  index: SessionIndex
  tail: Tail
  reader: TurnReader
  capture: Capture
  pool: Pool
  line: () => WeightLine
  engine: ServingEngine
  model: Model
  policy: string
  /** Submitted steps may be trained on although this gateway's engine did not sample them. */
  trainUnsampled: boolean
  now: () => number
  random: (bytes: number) => Uint8Array
  tailWaitMs: number
  /** Null while the gateway is ready. */
  unready: () => { status: string } | null
  answer: (call: AnswerCall) => Promise<AnswerReply>
  /** Runs `work` with the time limit, the cancellation and the place in the engine's queue that an answer has. */
  requesting: <T>(call: CompatCall, work: (request: ModelRequest) => Promise<T>) => Promise<T>
  dialects: typeof DIALECTS
}
