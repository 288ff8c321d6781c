/** The versions of a policy and their batches, folded from the log. */
import {
  decodeReadable,
  foldUpdates,
  foldWeights,
  initialUpdates,
  initialWeights,
  weightLine,
  type BatchState,
  type Logged,
  type UpdatesEvent,
  type VersionState,
  type MemoryWeightLine as WeightLine,
  type WeightsEvent,
} from '@instar/events'
import type { Config } from './config.ts'
import { hasLog, POLICY, withLog } from './log-access.ts'

/** `batches`: of every policy, branches included, since a promoted version has the batch of its branch. */
export type VersionHistory = { weights: WeightLine; batches: BatchState[] }

/** Reads `updates` before `weights`, so that the updates that a version names are present. Throws as `withLog`. */
export const readVersionHistory = async (config: Config, policy = POLICY): Promise<VersionHistory> => {
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
export const batchFinder = ({ batches }: VersionHistory): ((version: VersionState) => BatchState | null) => {
  const byUpdate = new Map<string | null, BatchState>()
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
