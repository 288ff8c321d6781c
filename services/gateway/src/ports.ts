/** What the gateway is given, and what it offers. */
import type { Asked } from '@instar/events'
import type { EventLog, SnapshotStore } from '@instar/log'
import type { Adapter, Model, ServingEngine } from '@instar/engine/port'
import type { Metrics } from '@instar/process'
import type { ReadModel } from '@instar/projections/read-model'

export type GatewayPorts = {
  log: EventLog
  /** Where the gateway keeps its snapshot. Without it, the gateway reads the log from the start. */
  snapshots?: SnapshotStore | undefined
  engine: ServingEngine
  model: Model
  /** The engine's base weights, if known. The gateway refuses a version line that was started on other weights. */
  base?: Pick<Model, 'name' | 'sha256' | 'sha256Named'>
  /** Milliseconds since the epoch. */
  now: () => number
  /** Milliseconds on a clock that is never set, for rates and the age of what was read. Default: performance.now. */
  monotonic?: () => number
  random: (bytes: number) => Uint8Array
  /** Promotes a branch's last version through the publisher's gate. */
  promote?: (branch: string, asked: Asked) => Promise<unknown>
  /**
   * Trains a branch from the log's history. Yields progress, then the report. `gone`: aborted when the caller
   * disconnects.
   */
  replay?: (options: Readonly<Record<string, unknown>>, gone: AbortSignal) => AsyncIterable<unknown>
  /** What the dashboard reads. Without it the dashboard has no history. */
  readModel?: ReadModel
  /** Folder of this process's files, whose space the dashboard checks. */
  data?: string
  /** The process's registry. Default: one for this gateway. */
  metrics?: Metrics
  /** Called when the log is broken or can no longer be followed. The caller must stop the process. */
  onFatal?: (error: Error) => void
  /** Decodes an adapter from the bytes on the log. Default: the decoder of packages/policy. */
  toAdapter?: (weights: Uint8Array) => Adapter
}

/** `servesHead` resolves when requests get the head that the log names as of the call, or its adapter could not be loaded. */
export type Gateway = { start(): Promise<{ url: string }>; servesHead(): Promise<void>; stop(): Promise<void> }
