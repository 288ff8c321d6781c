/** Writes a checkpoint of a service's fold: first its file, then its record. */
import { encodeEvent, InstarError, isReadable, type StateCheckpointed } from '@instar/events'
import { rm } from 'node:fs/promises'
import type { CopyObserver } from '../copy/meter.ts'
import { persist } from '../persist.ts'
import type { EventLog } from '../port.ts'
import { readUpgrades, versionsOn } from '../upgrades.ts'
import { packState, removeOthers, stateFault, stateFile } from './files.ts'
import { openFold, stateName, type StoredFold } from './fold.ts'
import { checkpointsOn } from './on-log.ts'

type WriteOptions = {
  policy: string
  /** Of the files. Those of a state but for the newest `kept` are removed. */
  folder: string
  /** Default: KEPT. */
  kept?: number
  /** Bytes of the files of a state: older ones go first; a larger state is not recorded. Default: no limit. */
  maxBytes?: number
  /** As the record has it. Default: `checkpoint`. */
  who?: string
  now: () => number
  observer: CopyObserver
  signal: AbortSignal
}

/**
 * `written`: false if the newest checkpoint has the same records and state, and its file is whole; or, with `tooLarge`, if the
 * file would be larger than the limit.
 */
export type CheckpointReport = Omit<StateCheckpointed, 'type' | 'who'> & { written: boolean; tooLarge?: true }

/** Files of a state that stay by default: the newest, and one for a build that does not know its version. */
const KEPT = 2

/**
 * Folds the log up to its end as of the call, from the newest usable checkpoint on. Null: the log has no record for it.
 * Throws `not_announced` before anything is folded, `no_temporary_file`, `aborted`.
 */
export const writeCheckpoint = async (
  log: EventLog,
  fold: StoredFold,
  { policy, folder, kept = KEPT, maxBytes = Infinity, who = 'checkpoint', now, observer, signal }: WriteOptions,
): Promise<CheckpointReport | null> => {
  await readUpgrades(log)
  if (!isReadable(versionsOn(log), 'StateCheckpointed'))
    throw new InstarError(
      'not_announced',
      'no checkpoint can be written: no record on this log states that all readers support it. Once every process runs this build: `instar setup --upgraded`.',
      { type: 'StateCheckpointed' },
    )
  const name = stateName(fold, policy)
  const to = await log.ends(fold.topics)
  const running = await openFold(log, fold, { policy, observer, checkpoints: folder })
  try {
    await running.upTo(to)
    const positions = running.snapshot.reached()
    if (positions.length === 0) return null
    const { digest, rows } = await running.snapshot.digest(signal)
    const state = { name, version: fold.version.number, digest, rows, positions }
    const known = await checkpointsOn(log, name)
    const last = known.at(-1)?.event
    if (last && isSame(last, state) && (await stateFault(folder, last)) === null) {
      const { file, bytes, at } = last
      return { ...state, file, bytes, at, written: false }
    }
    const file = await packState(await running.close(), folder, name, signal)
    const event: StateCheckpointed = { ...state, ...file, type: 'StateCheckpointed', who, at: now() }
    const { type: _, who: __, ...report } = event
    if (file.bytes > maxBytes) {
      if (!known.some((one) => one.event.file === file.file)) await rm(stateFile(folder, file), { force: true })
      return { ...report, written: false, tooLarge: true }
    }
    await persist(log, [encodeEvent(event, versionsOn(log))], signal)
    // Read again: another process may have written one meanwhile.
    const recorded = (await checkpointsOn(log, name)).map((one) => one.event)
    const newest = recorded
      .toReversed()
      .filter(({ file: own }, i, all) => all.findIndex((one) => one.file === own) === i)
    await removeOthers(folder, name, { kept: within(newest.slice(0, kept), maxBytes), recorded })
    return { ...report, written: true }
  } finally {
    await running.remove()
  }
}

/** The first files that together have at most so many bytes. */
const within = <T extends { bytes: number }>(files: readonly T[], maxBytes: number): T[] => {
  let total = 0
  return files.filter(({ bytes }) => (total += bytes) <= maxBytes)
}

const isSame = (last: StateCheckpointed, state: Pick<StateCheckpointed, 'version' | 'digest' | 'positions'>): boolean =>
  last.version === state.version && last.digest === state.digest && textOf(last.positions) === textOf(state.positions)

const textOf = (positions: StateCheckpointed['positions']): string =>
  positions
    .map(({ topic, partition, next, record }) => `${topic} ${partition} ${next} ${record}`)
    .sort()
    .join('\n')
