/**
 * Verifies checkpoints: folds the log from its start, independently of every checkpoint and snapshot, and compares the state
 * at the positions of each checkpoint, and the state in its file.
 */
import { InstarError, recordId, type StateCheckpointed } from '@instar/events'
import { TOPICS, type Topic } from '@instar/events/flow'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CopyObserver } from '../copy/meter.ts'
import type { EventLog, Offsets, Position } from '../port.ts'
import { SnapshotFile } from '../snapshots/file.ts'
import { versionText } from '../snapshots/version.ts'
import { stateFile, unpackState } from './files.ts'
import { openFold, policyIn, type RunningFold, type StoredFold } from './fold.ts'
import { checkpointsOn, type Checkpoint } from './on-log.ts'

/**
 * `record`: its id. `ok` null: not verified, for the reason in `what`. `file`: `missing` is no difference, since older files
 * are removed; `not_read`: the record differs already.
 */
export type CheckedCheckpoint = {
  name: string
  version: number
  record: string
  at: number
  digest: string
  rows: number
  ok: boolean | null
  file: 'equal' | 'differs' | 'missing' | 'not_read'
  what: string | null
}

/**
 * `ok`: no checkpoint differs. `first`: the first one that does. `unreadable`: records of their topic that cannot be decoded, which
 * every process passes over, so that they are no difference: how many, and the positions of the first.
 */
export type CheckpointsReport = {
  ok: boolean
  checkpoints: CheckedCheckpoint[]
  first: CheckedCheckpoint | null
  unreadable: { records: number; first: Position[] }
}

/** Limit of `unreadable.first`. */
const MAX_NAMED = 20

type VerifyOptions = {
  /** Of the files. */
  folder: string
  observer: CopyObserver
  /** Called before each checkpoint. */
  onCheckpoint?: (name: string, index: number, count: number) => void
}

type Ports = { log: EventLog; folds: readonly StoredFold[]; options: VerifyOptions }

/** All checkpoints on the log as of the call. Throws `no_temporary_file`, `aborted`. */
export const verifyCheckpoints = async (
  log: EventLog,
  folds: readonly StoredFold[],
  options: VerifyOptions,
): Promise<CheckpointsReport> => {
  const unreadable: CheckpointsReport['unreadable'] = { records: 0, first: [] }
  const all = await checkpointsOn(log, undefined, (position) => {
    unreadable.records += 1
    if (unreadable.first.length < MAX_NAMED) unreadable.first.push(position)
  })
  const checkpoints: CheckedCheckpoint[] = []
  const byName = Map.groupBy(all, ({ event }) => event.name)
  for (const [name, ofName] of byName) {
    const fold = folds.find((one) => policyIn(name, one) !== null)
    let running: RunningFold | null = null
    try {
      for (const checkpoint of ofName) {
        options.onCheckpoint?.(name, checkpoints.length + 1, all.length)
        const unknown = notVerified(checkpoint.event, fold)
        const misplaced = unknown === null ? await misplacedIn(log, checkpoint.event) : null
        const policy = fold ? policyIn(name, fold) : null
        if (!fold || policy === null || unknown !== null || misplaced !== null) {
          checkpoints.push(checked(checkpoint, unknown === null ? false : null, 'not_read', unknown ?? misplaced))
          continue
        }
        const to = offsetsOf(checkpoint.event)
        if (running && !isBehind(running.snapshot.positions(), to)) {
          await running.remove()
          running = null
        }
        running ??= await openFold(log, fold, { policy, observer: options.observer })
        await running.upTo(to)
        checkpoints.push(await compared({ log, folds, options }, running, checkpoint))
      }
    } finally {
      await running?.remove()
    }
  }
  const first = checkpoints.find(({ ok }) => ok === false) ?? null
  return { ok: first === null, checkpoints, first, unreadable }
}

const checked = (
  { id, event: { name, version, at, digest, rows } }: Checkpoint,
  ok: boolean | null,
  file: CheckedCheckpoint['file'],
  what: string | null,
): CheckedCheckpoint => ({ name, version, record: id, at, digest, rows, ok, file, what })

/** Why this build cannot fold the state; null: it can. */
const notVerified = ({ name, version }: StateCheckpointed, fold: StoredFold | undefined): string | null => {
  if (!fold) return `this build does not know the state ${name}`
  return fold.version.number === version
    ? null
    : `its state has version ${version}, and this build folds version ${fold.version.number}`
}

/** What is wrong with the positions; null: nothing. */
export const misplacedIn = async (log: EventLog, { positions }: StateCheckpointed): Promise<string | null> => {
  for (const { topic, partition, next, record } of positions) {
    const place = `${topic} ${partition}@${next - 1}`
    if (!isTopic(topic) || partition < 0 || partition >= log.partitions(topic) || next < 1)
      return `its position ${place} is none of this log`
    const found = await log.at({ topic, partition, offset: next - 1 })
    if (!found || recordId(found) !== record)
      return `its position ${place} is ${found ? 'another record' : 'no record'} on this log`
  }
  return null
}

const isTopic = (topic: string): topic is Topic => (TOPICS as readonly string[]).includes(topic)

const offsetsOf = ({ positions }: StateCheckpointed): Offsets => {
  const offsets: Partial<Record<Topic, Record<number, number>>> = {}
  for (const { topic, partition, next } of positions) (offsets[topic as Topic] ??= {})[partition] = next
  return offsets
}

const isBehind = (reached: Offsets, to: Offsets): boolean =>
  Object.entries(reached).every(([topic, partitions]) =>
    Object.entries(partitions).every(([partition, next]) => next <= (to[topic as Topic]?.[Number(partition)] ?? 0)),
  )

const compared = async (
  { options }: Ports,
  { snapshot }: RunningFold,
  checkpoint: Checkpoint,
): Promise<CheckedCheckpoint> => {
  const { event } = checkpoint
  const folded = await snapshot.digest(options.observer.signal)
  const differs = folded.digest !== event.digest || folded.rows !== event.rows
  const inFold = `the log's fold has ${folded.rows} rows and the digest ${folded.digest}, the checkpoint ${event.rows} and ${event.digest}`
  if (!existsSync(stateFile(options.folder, event)))
    return checked(checkpoint, !differs, 'missing', differs ? inFold : null)
  const temporary = makeTemporaryFolder('checkpoint')
  let file: SnapshotFile | undefined
  try {
    const path = join(temporary, 'state.db')
    const fault = await unpackState(options.folder, event, path)
    if (fault !== null) return checked(checkpoint, false, 'differs', differs ? `${inFold}; ${fault}` : fault)
    try {
      file = new SnapshotFile(path)
      if (file.meta('version') !== versionText({ number: event.version, migrations: {} }))
        return checked(checkpoint, false, 'differs', 'its file has a state of another version')
      const stored = await snapshot.digestOf(file.rows(), options.observer.signal)
      const same = stored.digest === folded.digest && sameReached(file, snapshot.reached())
      if (same) return checked(checkpoint, !differs, 'equal', differs ? inFold : null)
      const row = await snapshot.firstDifferentRow(file.rows())
      const where = row
        ? `the first row of its file that differs from the log's fold: ${row.table}, ${JSON.stringify(row.key)}`
        : 'its file has the state of other positions'
      return checked(checkpoint, false, 'differs', differs ? `${inFold}; ${where}` : where)
    } catch (error) {
      if (error instanceof InstarError && error.code !== 'snapshot_damaged') throw error
      return checked(checkpoint, false, 'differs', `its file cannot be read: ${(error as Error).message}`)
    }
  } finally {
    await file?.close().catch(() => undefined)
    await rm(temporary, { recursive: true, force: true })
  }
}

const sameReached = (file: SnapshotFile, reached: ReturnType<RunningFold['snapshot']['reached']>): boolean => {
  const stored = JSON.parse(file.meta('reached') ?? '[]') as [string, [number, { next: number; id: string }][]][]
  const texts = stored.flatMap(([topic, of]) => of.map(([one, { next, id }]) => `${topic} ${one} ${next} ${id}`))
  const ours = reached.map(({ topic, partition, next, record }) => `${topic} ${partition} ${next} ${record}`)
  return texts.sort().join('\n') === ours.sort().join('\n')
}
