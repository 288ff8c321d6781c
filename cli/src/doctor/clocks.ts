/** Compares the clocks of other machines with the clock of this one. */
import { durationText, note, ok, wrong, type Finding } from './finding.ts'

/**
 * The time of another machine (`remote`), read between two times of this one (`before`, `after`); ms since the epoch.
 * `resolution`: `remote` is rounded down to a multiple of it, ms; default 0.
 */
export type ClockReading = { source: string; before: number; remote: number; after: number; resolution?: number }

/**
 * The least difference of the clocks that explains the reading, ms; 0 if the duration of the request and the resolution
 * explain it. Positive: the remote clock is ahead.
 */
export const skewOf = ({ before, remote, after, resolution = 0 }: Omit<ClockReading, 'source'>): number =>
  remote > after ? remote - after : remote + resolution < before ? remote + resolution - before : 0

const NOTE_MS = 1000
const WRONG_MS = 60_000
const TODO =
  'Synchronize the clocks of both machines with NTP. Records carry the time of the machine that wrote them. The order of records does not depend on it; idle sessions, time ranges, figures, and the search for a blob (from ten minutes before the record that names it) do.'

export const clockFindings = (readings: readonly ClockReading[]): Finding[] => {
  const skewed = readings.flatMap((reading): Finding[] => {
    const skew = skewOf(reading)
    if (Math.abs(skew) < NOTE_MS) return []
    return [
      (Math.abs(skew) >= WRONG_MS ? wrong : note)(
        `${reading.source} is ${durationText(skew)} ${skew > 0 ? 'ahead of' : 'behind'} this machine`,
        TODO,
      ),
    ]
  })
  const synchronized = readings.filter((reading) => Math.abs(skewOf(reading)) < NOTE_MS)
  return synchronized.length === 0
    ? skewed
    : [
        ...skewed,
        ok(
          `within a second of this machine: ${synchronized.map(({ source }) => source).join(', ')} (Kafka has no request for the time; nothing depends on the clocks of its brokers)`,
        ),
      ]
}
