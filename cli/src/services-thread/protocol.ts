/** Messages between the thread of the gateway and that of the other services. Everything in them is plain data. */
import type { PlainError } from '@instar/events/plain-error'
import type { Model } from '@instar/engine/port'
import type { MetricValues, Settings } from '@instar/process'
import type { DatabaseConnection } from '@instar/projections'
import type { PublisherPorts } from '@instar/publisher'
import type { TrainerPorts } from '@instar/trainer'
import type { MessagePort } from 'node:worker_threads'
import type { PipelineConfig } from '../pipeline-config.ts'

/** `port`: the way to the embedded log, which the gateway's thread holds; null where the log is Kafka. */
export type ThreadData = {
  config: Pick<PipelineConfig, 'data' | 'model' | 'engine' | 'learnEngine' | 'scorer' | 'trainer' | 'publisher'>
  log: Pick<Settings, 'log' | 'partitions' | 'registry' | 'registryUser' | 'kafka'>
  port: MessagePort | null
  learns: boolean
}

/** What is known once the engine that serves and PostgreSQL are up. */
export type Begin = { model: Pick<Model, 'contextLength' | 'defaults'>; database: DatabaseConnection | null }

/** Where the line stands, as this thread has read it. */
export type LineState = { started: boolean; head: number; frozen: boolean }

/** What the gateway's thread asks for; `replay` answers with lines before its end. */
export type Calls = {
  settled: { given: null; answer: null }
  line: { given: null; answer: LineState | null }
  metrics: { given: null; answer: MetricValues }
  promote: { given: string; answer: unknown }
  replay: { given: Readonly<Record<string, unknown>>; answer: null }
  stop: { given: null; answer: null }
}
export type CallName = keyof Calls

export type ToServices =
  | { type: 'begin'; begin: Begin }
  | { type: 'call'; call: number; name: CallName; given: unknown }
  /** Whoever asked for this replay has left. */
  | { type: 'leave'; call: number }

export type FromServices =
  /** `learning`: what learns, in words; null where nothing does. */
  | { type: 'loaded'; learning: string | null }
  | { type: 'ready' }
  /** The start failed, or was given up. */
  | { type: 'refused'; error: PlainError }
  | { type: 'line'; call: number; line: unknown }
  | { type: 'answer'; call: number; answer: unknown }
  | { type: 'error'; call: number; error: PlainError }
  | { type: 'say'; text: string }
  | { type: 'fatal'; error: PlainError }
  | { type: 'training'; what: Parameters<NonNullable<TrainerPorts['onProgress']>>[0] }
  | { type: 'verdict'; what: Parameters<NonNullable<PublisherPorts['onProgress']>>[0] }
