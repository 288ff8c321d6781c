/** Versions and batches, folded from the log, which another process may be writing to. */
import {
  decodeReadable,
  foldUpdates,
  foldWeights,
  initialUpdates,
  initialWeights,
  InstarError,
  weightLine,
  type BatchState,
  type Logged,
  type UpdatesEvent,
  type VersionState,
  type MemoryWeightLine as WeightLine,
  type WeightsEvent,
} from '@instar/events'
import type { EventLog } from '@instar/log'
import { logTarget, openLog } from '@instar/process'
import { join } from 'node:path'
import type { Config } from './config.ts'

export const POLICY = 'policy'

export const postgresFolder = (config: Pick<Config, 'data'>): string => join(config.data, 'postgres')

/** Before the first start there is no embedded log, which is no error: a policy begins with its base. */
export const hasLog = (config: Pick<Config, 'data' | 'log'>): boolean => logTarget(config).exists()

const open = (config: Config, readOnly: boolean): Promise<EventLog> => {
  if (!hasLog(config))
    throw new InstarError('data_unreadable', `There is no log in ${config.data}: nothing has been started there yet.`, {
      folder: config.data,
    })
  return openLog(config, { name: 'instar', readOnly })
}

/** For a command that appends. The embedded log has one writer: throws `data_in_use` beside a pipeline that runs. */
export const openWritable = (config: Config): Promise<EventLog> => open(config, false)

/** Throws `data_unreadable` for a file that is found damaged while it is read. */
export const withLog = async <T>(config: Config, use: (log: EventLog) => Promise<T>): Promise<T> => {
  const log = await open(config, true)
  try {
    return await use(log)
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_SQLITE_ERROR') throw cause
    throw new InstarError(
      'data_unreadable',
      `The log in ${config.data} cannot be read on: ${(cause as Error).message}. Restore it from its copy.`,
      { folder: config.data },
      { cause },
    )
  } finally {
    await log.close()
  }
}

/** `batches`: of every line, branches too, since a promoted version's is its branch's. */
export type Lines = { weights: WeightLine; batches: BatchState[] }

/** `updates` first: what a version names is then there. */
export const readLines = async (config: Config, policy = POLICY): Promise<Lines> => {
  const weights = initialWeights()
  const updates = initialUpdates()
  if (hasLog(config)) {
    await withLog(config, async (log) => {
      const to = await log.ends(['weights', 'updates'])
      for await (const records of log.read('updates', { to }))
        for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
          foldUpdates(updates, record as Logged<UpdatesEvent>)
      for await (const records of log.read('weights', { key: policy, to }))
        for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
          foldWeights(weights, record as Logged<WeightsEvent>)
    })
  }
  return {
    weights: weightLine(weights, policy),
    batches: [...updates.lines.values()].flatMap(({ batches }) => batches),
  }
}

/** As in the view `versions`: the head, its ancestors, and what was rolled back over. */
type VersionStatus = 'serving' | 'superseded' | 'rolled_back'

export const lineage = (line: WeightLine): Set<number> => {
  const numbers = new Set<number>()
  for (let at: number | null = line.head; at !== null; at = line.versions.get(at)?.parent ?? null) numbers.add(at)
  return numbers
}

export const statusOf = (line: WeightLine, version: number): VersionStatus =>
  version === line.head ? 'serving' : lineage(line).has(version) ? 'superseded' : 'rolled_back'

/** Version 0 is there before the line is. */
const BASE: VersionState = {
  version: 0,
  parent: null,
  adapter: null,
  state: null,
  update: null,
  blobsAt: 0,
  at: 0,
  record: '',
  published: null,
}

export const versionsOf = (line: WeightLine): VersionState[] =>
  line.versions.size > 0 ? [...line.versions.values()].sort((a, b) => a.version - b.version) : [BASE]

/** The batch behind a version; null for the base. */
export const batchOf = ({ batches }: Lines, version: VersionState): BatchState | null =>
  batches.find((batch) => batch.update !== null && batch.update.id === version.update) ?? null

/** When a version was the head. `to` null: it is. */
export const servedIntervals = (line: WeightLine, version: number): { from: number; to: number | null }[] => {
  const starts = [
    ...(line.started ? [{ version: 0, at: line.started.at }] : []),
    ...line.moves.map((move) => ({ version: move.to, at: move.at })),
  ]
  return starts.flatMap(({ version: number, at }, i) =>
    number === version ? [{ from: at, to: starts[i + 1]?.at ?? null }] : [],
  )
}

export const iso = (ms: number | null): string | null => (ms === null || ms === 0 ? null : new Date(ms).toISOString())
