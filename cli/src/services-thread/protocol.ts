/** Messages between the gateway's thread and the services' thread. Every field is structured-cloneable. */
import type { Asked } from '@instar/events'
import type { PlainError } from '@instar/events/plain-error'
import type { Model } from '@instar/engine/port'
import type { CoreShare } from '@instar/policy'
import type { LogAt, MetricValues } from '@instar/process'
import type { DatabaseConnection } from '@instar/projections'
import type { PublisherPorts } from '@instar/publisher'
import type { GatewayAddress } from '@instar/scorer'
import type { TrainerPorts } from '@instar/trainer'
import type { MessagePort } from 'node:worker_threads'
import type { PipelineConfig } from '../pipeline-config.ts'

export type ThreadData = {
  config: Pick<
    PipelineConfig,
    | 'data'
    | 'checkpoints'
    | 'checkpointing'
    | 'model'
    | 'baseAdapter'
    | 'engine'
    | 'learnEngine'
    | 'remote'
    | 'scorer'
    | 'trainer'
    | 'publisher'
    | 'values'
  >
  log: LogAt
  /** Appends to the embedded log, which the gateway's thread has open; null where the log is on Kafka. */
  port: MessagePort | null
  /** The trainer and the publisher run too. */
  learns: boolean
  /** Memory that the learning engine shares with the serving engine; null: that is not in this process. */
  share: CoreShare | null
}

/** What the services need from the serving engine and from PostgreSQL. `database` null: there is none. */
export type StartOptions = { model: Pick<Model, 'contextLength' | 'defaults'>; database: DatabaseConnection | null }

/** State of the policy's version line, as far as this thread has read it. */
export type LineState = { started: boolean; head: number; frozen: boolean }

export type ReplayFields = Readonly<Record<string, unknown>>

/** Calls to the services' thread. `replay` sends items before its result. */
export type Calls = {
  settled: { params: null; result: null }
  line: { params: null; result: LineState | null }
  metrics: { params: null; result: MetricValues }
  promote: { params: { branch: string; asked: Asked }; result: unknown }
  /** The gateway listens. */
  gatewayAt: { params: GatewayAddress; result: null }
  replay: { params: ReplayFields; result: null }
  stop: { params: null; result: null }
}
export type CallName = keyof Calls

export type ToServices =
  | { type: 'start'; options: StartOptions }
  | { type: 'call'; id: number; name: CallName; params: unknown }
  /** Ends a replay whose items are no longer read. */
  | { type: 'cancel'; id: number }

export type FromServices =
  /** `learning`: description of the engine that computes updates; null where nothing is learned. */
  | { type: 'loaded'; learning: string | null }
  | { type: 'ready' }
  /** The start failed or was aborted. */
  | { type: 'startFailed'; error: PlainError }
  | { type: 'item'; id: number; item: unknown }
  | { type: 'result'; id: number; result: unknown }
  | { type: 'error'; id: number; error: PlainError }
  | { type: 'logLine'; text: string }
  | { type: 'fatal'; error: PlainError }
  | { type: 'training'; progress: Parameters<NonNullable<TrainerPorts['onProgress']>>[0] }
  | { type: 'verdict'; progress: Parameters<NonNullable<PublisherPorts['onProgress']>>[0] }
