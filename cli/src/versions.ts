/** The versions of a policy and their batches, folded from the log. */
import {
  decodeReadable,
  foldUpdates,
  foldWeights,
  initialWeights,
  updateLine,
  weightLine,
  type BatchSealed,
  type BatchState,
  type Logged,
  type UpdateComputed,
  type UpdatesEvent,
  type UpdatesState,
  type VersionState,
  type MemoryWeightLine as WeightLine,
  type WeightsEvent,
} from '@instar/events'
import { openTemporaryTables, storedUpdates, type EventLog, type TemporaryTables } from '@instar/log'
import type { Config } from './config.ts'
import { hasLog, POLICY, withLog } from './log-access.ts'

/** What the list of versions shows of a batch: one row, whatever its turns. `turns`: those that it trains on. */
export type BatchRow = Pick<BatchState, 'id' | 'status' | 'reason'> &
  Pick<BatchSealed, 'policy' | 'number' | 'settings' | 'at'> & {
    parent: number
    turns: number
    /** Null without turns. */
    meanReward: number | null
    update: ({ id: string } & Pick<UpdateComputed, 'figures' | 'startedAt' | 'at'>) | null
  }

/** `batches`: of every policy, branches included, since a promoted version has the batch of its branch. */
export type VersionHistory = { weights: WeightLine; batches: BatchRow[] }
/** `batchOf`: the whole batch of a row, from the temporary file. */
export type ReadHistory = VersionHistory & { batchOf(row: BatchRow): BatchState | undefined }

/**
 * Reads `weights`, then `updates` into a temporary file, so that of a batch only its row is in memory; calls `use` before the
 * file is deleted. Throws as `withLog`, which `stop` is for; `no_temporary_file`.
 */
export const withVersionHistory = async <T>(
  config: Config,
  use: (history: ReadHistory) => T,
  stop?: AbortSignal,
  policy = POLICY,
): Promise<T> => {
  const weights = initialWeights()
  if (!hasLog(config)) return use({ weights: weightLine(weights, policy), batches: [], batchOf: () => undefined })
  const read = async (log: EventLog): Promise<T> => {
    const to = await log.ends(['weights'])
    for await (const records of log.read('weights', { key: policy, to }))
      for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
        foldWeights(weights, record as Logged<WeightsEvent>)
    const tables = await openTemporaryTables(log)
    try {
      const updates = storedUpdates(tables.snapshot, { training: false })
      const batches = await readBatches(log, updates, tables)
      const batchOf = (row: BatchRow): BatchState | undefined => updateLine(updates, row.policy).byId.get(row.id)
      return use({ weights: weightLine(weights, policy), batches, batchOf })
    } finally {
      await tables.close()
    }
  }
  return withLog(config, read, stop)
}

/** As `withVersionHistory`, without the turns of batches. */
export const readVersionHistory = (config: Config, stop?: AbortSignal, policy = POLICY): Promise<VersionHistory> =>
  withVersionHistory(config, ({ weights, batches }) => ({ weights, batches }), stop, policy)

/** Reads to the end as of the call, which is after that of `weights`: the updates that a version names are present. */
const readBatches = async (log: EventLog, updates: UpdatesState, tables: TemporaryTables): Promise<BatchRow[]> => {
  const rows = new Map<string, BatchRow>()
  const to = await log.ends(['updates'])
  for await (const records of log.read('updates', { to }))
    for (const record of records) {
      const logged = decodeReadable(record) as Logged<UpdatesEvent> | null
      if (!logged) continue
      if (foldUpdates(updates, logged).counted) addTo(rows, logged)
      const written = tables.afterFold(logged)
      if (written) await written
    }
  return [...rows.values()]
}

const addTo = (rows: Map<string, BatchRow>, { id, event }: Logged<UpdatesEvent>): void => {
  if (event.type === 'BatchSealed') {
    const { policy, number, settings, at, parent, items } = event
    const rewards = items.reduce((sum, { reward }) => sum + reward, 0)
    rows.set(id, {
      id,
      policy,
      number,
      settings,
      at,
      parent: parent.version,
      turns: items.length,
      meanReward: items.length > 0 ? rewards / items.length : null,
      status: 'sealed',
      reason: null,
      update: null,
    })
    return
  }
  const row = 'batch' in event ? rows.get(event.batch) : undefined
  if (!row) return
  if (event.type === 'UpdateComputed') {
    const { figures, startedAt, at } = event
    Object.assign(row, { status: 'computed', update: { id, figures, startedAt, at } })
  } else if (event.type === 'UpdateFailed') Object.assign(row, { status: 'failed', reason: event.reason })
}

/** As in the SQL view `versions`: the head, its ancestors, and the other versions. */
type VersionStatus = 'serving' | 'superseded' | 'rolled_back'

/** The numbers of the head and its ancestors. A parent has a lower number; a record that says otherwise ends the line. */
const lineage = (line: WeightLine): Set<number> => {
  const numbers = new Set<number>()
  for (let at: number | null = line.head, last = Infinity; at !== null && at < last;) {
    numbers.add(at)
    last = at
    at = line.versions.get(at)?.parent ?? null
  }
  return numbers
}

/** The status of each version by its number. */
export const statusesOf = (line: WeightLine): ((version: number) => VersionStatus) => {
  const ancestors = lineage(line)
  return (version) => (version === line.head ? 'serving' : ancestors.has(version) ? 'superseded' : 'rolled_back')
}

/** Version 0 before the first record of the policy. */
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

/** Every version, by ascending number. */
export const versionsOf = (line: WeightLine): VersionState[] =>
  line.versions.size > 0 ? [...line.versions.values()].sort((a, b) => a.version - b.version) : [BASE]

/** What made a version: `update`, `promotion`, `base`, or `imported` for a base with an adapter from elsewhere. */
export const whyOf = (line: WeightLine, { version, published }: VersionState): string =>
  published?.why ?? (version === 0 && line.started?.imported ? 'imported' : 'base')

/** The batch that each version was trained on; null for the base. */
export const batchFinder = ({ batches }: VersionHistory): ((version: VersionState) => BatchRow | null) => {
  const byUpdate = new Map<string | null, BatchRow>()
  for (const batch of batches)
    if (batch.update !== null && !byUpdate.has(batch.update.id)) byUpdate.set(batch.update.id, batch)
  return ({ update }) => byUpdate.get(update) ?? null
}

/** When a version was the head, in ms since the epoch. `to` null: it is the head. */
export const servedIntervals = (line: WeightLine, version: number): { from: number; to: number | null }[] => {
  const heads = [
    ...(line.started ? [{ version: 0, at: line.started.at }] : []),
    ...line.moves.map((move) => ({ version: move.to, at: move.at })),
  ]
  return heads.flatMap(({ version: head, at }, i) =>
    head === version ? [{ from: at, to: heads[i + 1]?.at ?? null }] : [],
  )
}

/** `ms`: since the epoch; 0, the time of the base, has no ISO form. */
export const isoTime = (ms: number | null): string | null =>
  ms === null || ms === 0 ? null : new Date(ms).toISOString()
