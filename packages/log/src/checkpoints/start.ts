/** Which checkpoints a process without a snapshot may start from. */
import type { StateCheckpointed } from '@instar/events'
import type { EventLog } from '../port.ts'
import type { FoldFile } from '../snapshots/file.ts'
import { inSlices } from '../snapshots/slices.ts'
import { migrationsFrom, type StateVersion } from '../snapshots/version.ts'
import { unpackState } from './files.ts'
import { checkpointsOn, type Checkpoint } from './on-log.ts'

type Wanted = {
  folder: string
  name: string
  version: StateVersion
  accepts?: ((checkpoint: Checkpoint) => boolean) | undefined
  logLine: (line: string) => void
  signal?: AbortSignal | undefined
}

export const timeOf = ({ at }: Pick<StateCheckpointed, 'at'>): string => new Date(at).toISOString()

/**
 * The newest first, of versions that are known or can be migrated; the state of each is unpacked to the path `to`. Throws the
 * reason of `signal` if it is aborted.
 */
export const unpackedCheckpoints = async function* (
  log: EventLog,
  { folder, name, version, accepts = () => true, logLine, signal }: Wanted,
  to: string,
): AsyncGenerator<StateCheckpointed> {
  for (const checkpoint of (await checkpointsOn(log, name)).reverse()) {
    const { event } = checkpoint
    if (!migrationsFrom(`v${event.version}`, version) || !accepts(checkpoint)) continue
    const fault = await unpackState(folder, event, to, signal)
    if (fault === null) yield event
    else logLine(`${name}: the checkpoint of ${timeOf(event)} is not used: ${fault}`)
  }
}

/**
 * Reads every value, each with its checksum: one that cannot be read would end the process each time that it started from there.
 * Null: all can be. Throws the reason of `signal` if it is aborted.
 */
export const unreadableIn = async (file: FoldFile, signal?: AbortSignal): Promise<string | null> => {
  try {
    await inSlices(file.rows(), () => signal?.throwIfAborted())
    return null
  } catch (error) {
    signal?.throwIfAborted()
    return (error as Error).message
  }
}
