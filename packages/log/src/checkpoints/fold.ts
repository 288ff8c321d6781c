/** Folds of services apart from the services: for checkpoints, which are written and verified from the log alone. */
import { decodeReadable, InstarError, type Logged } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Meter, type CopyObserver } from '../copy/meter.ts'
import type { EventLog, Offsets } from '../port.ts'
import type { Snapshot } from '../snapshots/snapshot.ts'
import { openSnapshots } from '../snapshots/store.ts'
import type { StateVersion } from '../snapshots/version.ts'

/** `part`: of the service's states, which one; absent: it has one. `on`: the fold with its state in the snapshot, which is not open yet. */
export type StoredFold = {
  service: string
  part?: string
  version: StateVersion
  topics: readonly Topic[]
  on(snapshot: Snapshot, policy: string): (logged: Logged) => unknown
}

/** The name of the state's snapshot, as the records have it. */
export const stateName = ({ service, part }: Pick<StoredFold, 'service' | 'part'>, policy: string): string =>
  part === undefined ? `${service}.${policy}` : `${service}.${policy}.${part}`

/** The policy of a state's name; null: it is no state of the fold. */
export const policyIn = (name: string, { service, part }: Pick<StoredFold, 'service' | 'part'>): string | null => {
  const end = part === undefined ? '' : `.${part}`
  const isOf = name.startsWith(`${service}.`) && name.endsWith(end) && name.length > service.length + 1 + end.length
  return isOf ? name.slice(service.length + 1, name.length - end.length) : null
}

export type RunningFold = {
  snapshot: Snapshot
  /** Folds the records before these positions, topic by topic. Throws `aborted`. */
  upTo(to: Offsets): Promise<void>
  /** Closes the state's file, which stays until `remove`. Resolves with its path. */
  close(): Promise<string>
  remove(): Promise<void>
}

type FoldOptions = {
  policy: string
  observer: CopyObserver
  /** The folder of files of checkpoints, from the newest of which the fold starts; absent: from the log's start. */
  checkpoints?: string
}

/** Opens a fold in a temporary folder. Throws `no_temporary_file`, `aborted`. */
export const openFold = async (
  log: EventLog,
  fold: StoredFold,
  { policy, observer, checkpoints }: FoldOptions,
): Promise<RunningFold> => {
  let folder: string
  try {
    folder = makeTemporaryFolder('checkpoint')
  } catch (cause) {
    throw noFile((cause as Error).message, cause)
  }
  const onExit = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', onExit)
  let fault: string | null = null
  const logLine = (line: string): void => {
    if (/no snapshots? (is|are|could be)/.test(line)) fault ??= line
  }
  const name = stateName(fold, policy)
  const snapshot = openSnapshots(folder, {
    logLine,
    signal: observer.signal,
    ...(checkpoints === undefined ? {} : { checkpoints }),
  }).of(name, fold.version)
  const evolve = fold.on(snapshot, policy)
  const remove = async (): Promise<void> => {
    await snapshot.close({ save: false })
    await rm(folder, { recursive: true, force: true })
    process.off('exit', onExit)
  }
  try {
    let from = await snapshot.open(log, fold.topics)
    return {
      snapshot,
      remove,
      async upTo(to) {
        for (const topic of fold.topics) {
          const range = { from: { [topic]: from[topic] ?? {} }, to: { [topic]: boundsOf(log, topic, to) } }
          const meter = new Meter({ phase: 'fold', topic }, range, { onProgress: observer.onProgress })
          for await (const records of log.read(topic, range))
            for (const record of records) {
              if (observer.signal?.aborted) throw stopped()
              meter.read(record)
              const logged = decodeReadable(record)
              if (!logged) continue
              evolve(logged)
              const saving = snapshot.after(logged)
              if (saving) await saving
              if (fault !== null) throw noFile(fault)
            }
          meter.end()
        }
        from = snapshot.positions()
      },
      async close() {
        await snapshot.close({ save: false })
        return join(folder, `${name}.db`)
      },
    }
  } catch (error) {
    await remove()
    throw observer.signal?.aborted ? stopped() : error
  }
}

/** Of all partitions, since those that positions lack would be read to their ends. */
const boundsOf = (log: EventLog, topic: Topic, to: Offsets): Record<number, number> =>
  Object.fromEntries(Array.from({ length: log.partitions(topic) }, (_, one) => [one, to[topic]?.[one] ?? 0]))

const stopped = (): InstarError =>
  new InstarError('aborted', 'The command was stopped before it reached the end of the log.')

const noFile = (what: string, cause?: unknown): InstarError =>
  new InstarError('no_temporary_file', `the temporary file of the fold cannot be written: ${what}`, {}, { cause })
