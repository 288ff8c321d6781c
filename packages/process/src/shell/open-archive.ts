/** Opens the archive of INSTAR_ARCHIVE behind a log, so that what was cut from the log is read from it. */
import {
  Archive,
  openFolderStore,
  openS3Store,
  namingArchive,
  withArchive,
  type ArchiveStore,
  type EventLog,
} from '@instar/log'
import { placeWarning, type ArchivePlace } from '../archive-place.ts'

/** Bytes of objects that stay in memory for the next read: at most eight full ones. */
const KEPT_BYTES = 64 << 20

/** `writing`: a folder is created and locked. Throws `data_in_use`, `archive_unavailable`. */
export const openArchivePlace = (place: ArchivePlace, writing: boolean): ArchiveStore =>
  place.kind === 's3' ? openS3Store(place.place) : openFolderStore(place.folder, writing)

/** The archive is opened by the first read below what the log holds. Null: none is set, and such a read ends with `log_cut`. */
export const withArchiveAt = <L extends EventLog>(
  log: L,
  place: ArchivePlace | null,
  logLine?: (line: string) => void,
): L => {
  if (place === null)
    return namingArchive(log, (error) =>
      logLine?.(`records that were cut from the log are asked for, and INSTAR_ARCHIVE is not set: ${error.message}`),
    )
  const warning = placeWarning(place)
  if (warning !== null) logLine?.(`INSTAR_ARCHIVE: ${warning}`)
  const store = openArchivePlace(place, false)
  const closing = new AbortController()
  return withArchive(log, {
    address: store.address,
    open: () => Archive.open(store, { keptBytes: KEPT_BYTES, signal: closing.signal }),
    async close() {
      closing.abort()
      await store.close()
    },
  })
}
