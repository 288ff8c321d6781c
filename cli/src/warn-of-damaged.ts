/** The warning of records of a log that did not match their checksums. */
import { placesText, type DamagedReport } from '@instar/log'

/** Positions on the console; `--json` has more. */
const SHOWN_DAMAGED = 20

/** `one` and `many`: what happened to one such record, and to several. */
export const warnOfDamaged = (
  damaged: DamagedReport,
  writeLine: (line: string) => void,
  one: string,
  many: string,
): void => {
  const { records } = damaged
  if (records === 0) return
  const what =
    records === 1
      ? `1 record of the log did not match its checksum and ${one}`
      : `${records} records of the log did not match their checksums and ${many}`
  writeLine(`WARNING: ${what}: ${placesText(damaged, SHOWN_DAMAGED)}`)
}
