/** An adapter that was trained elsewhere becomes a part of the base of a new line. */
import { InstarError, isReadable, type ImportedAdapter } from '@instar/events'
import { contentSha } from '@instar/events/ids'
import { putBlob, versionsOn, type EventLog } from '@instar/log'
import type { ReadFolder } from '@instar/policy'
import type { PublisherConfig } from '../config.ts'
import type { BaseProgress, MeasurePorts } from './base.ts'
import { measureBase } from './evaluate.ts'
import type { ProbeSet } from './probes.ts'

/** Throws `not_announced` while a reader of the log would take version 0 for the weights alone. */
export const requireAnnounced = (log: EventLog): void => {
  if (isReadable(versionsOn(log), 'LineStarted', 2)) return
  throw new InstarError(
    'not_announced',
    'A line with an imported adapter cannot be started: no record on this log states that all readers know it.',
    { type: 'LineStarted' },
  )
}

/** The figures of the base with `imports` on it (null: of the weights alone), which is loaded for the measurement. */
export const measureBaseWith = async (
  imports: ReadFolder | null,
  ports: MeasurePorts & {
    probes: ProbeSet
    config: PublisherConfig
    onProgress: (progress: BaseProgress) => void
  },
): Promise<Record<string, number>> => {
  const { evaluator, config, onProgress } = ports
  if (!imports) return measureBase(ports, config, onProgress)
  await evaluator.load(imports.adapter)
  try {
    return await measureBase(ports, config, onProgress, imports.adapter.sha256)
  } finally {
    await evaluator.unload(imports.adapter.sha256)
  }
}

/** Stores the adapter's weights as a blob at `at`; the part of `LineStarted` that names them. */
export const storeImported = async (
  log: EventLog,
  { adapter, ...facts }: ReadFolder,
  at: number,
  signal: AbortSignal,
): Promise<ImportedAdapter> => ({
  ...facts,
  adapter: await putBlob(log, adapter.weights, at, signal),
  adapterBytes: adapter.weights.length,
  config: contentSha(adapter.config),
})
