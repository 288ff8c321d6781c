/** Clocks of other machines against ours. */
import { duration, fine, note, wrong, type Finding } from './finding.ts'

/** A time that somebody told, between two of ours, all ms since the epoch. `resolution`: what he rounds down to. */
export type Told = { who: string; before: number; theirs: number; after: number; resolution?: number }

/** What is sure of the difference, ms; 0 where all of it may be the way there and back. Positive: they are ahead. */
export const skewOf = ({
  before,
  theirs,
  after,
  resolution = 0,
}: Pick<Told, 'before' | 'theirs' | 'after' | 'resolution'>): number =>
  theirs > after ? theirs - after : theirs + resolution < before ? theirs + resolution - before : 0

const NOTED_MS = 1000
const WRONG_MS = 60_000
const WHAT_TO_DO =
  'Let NTP set the clocks of both machines. Records carry the time of who wrote them: order never hangs on it, but idle sessions, ranges of time and figures do, and a blob is looked for from ten minutes before the record that names it.'

export const clocksFound = (clocks: readonly Told[]): Finding[] => {
  const off = clocks.flatMap((told): Finding[] => {
    const skew = skewOf(told)
    if (Math.abs(skew) < NOTED_MS) return []
    return [
      (Math.abs(skew) >= WRONG_MS ? wrong : note)(
        `${told.who} is ${duration(skew)} ${skew > 0 ? 'ahead of' : 'behind'} this machine`,
        WHAT_TO_DO,
      ),
    ]
  })
  const same = clocks.filter((told) => Math.abs(skewOf(told)) < NOTED_MS)
  const said =
    same.length > 0
      ? [
          fine(
            `within a second of this machine: ${same.map(({ who }) => who).join(', ')} (Kafka tells no time; nothing hangs on its brokers' clocks)`,
          ),
        ]
      : []
  return [...off, ...said]
}
