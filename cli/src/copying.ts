/** What a person sees of a copy of a log. */
import type { CopyProgress, CopyReport } from '@instar/log'
import type { Topic } from '@instar/events/flow'
import { bar } from './demo/show.ts'
import { table } from './table.ts'

const megabytes = (bytes: number): string =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`

const duration = (ms: number): string => (ms < 90_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.ceil(ms / 60_000)} min`)

/** Between two lines where there is no terminal. */
const LINE_MS = 5000

/**
 * One line that is drawn over on a terminal; elsewhere a line now and then, and one for each topic that held anything.
 */
export const copyProgress = (
  err: (text: string) => void,
  terminal: boolean,
  now: () => number = () => performance.now(),
): { show(progress: CopyProgress): void; end(): void } => {
  let part = ''
  let began = 0
  let told = 0
  return {
    show({ phase, topic, share, records, bytes }) {
      const at = now()
      if (part !== `${phase} ${topic}`) {
        part = `${phase} ${topic}`
        began = at
        told = at
      }
      const left =
        share > 0 && share < 1 ? `, about ${duration(((at - began) * (1 - share)) / share)} left of this topic` : ''
      const line = `${phase.padEnd(12)} ${topic.padEnd(7)} ${bar(share)} ${String(Math.floor(100 * share)).padStart(3)}%  ${records} records, ${megabytes(bytes)}${left}`
      if (terminal) err(`\r\x1b[2K${line}`)
      else if ((share === 1 && records > 0) || at - told >= LINE_MS) {
        told = at
        err(`${line}\n`)
      }
    },
    end() {
      if (terminal) err('\r\x1b[2K')
    },
  }
}

export const reportText = ({ topics, copied, skipped, equal, first }: CopyReport, wallMs: number): string => {
  const rows = table(
    [
      { name: 'topic', of: ([topic]) => topic },
      { name: 'records', of: ([, { records }]) => records },
      { name: 'bytes', of: ([, { bytes }]) => bytes },
      { name: 'digest', of: ([, { digest }]) => digest.slice(0, 16) },
    ],
    Object.entries(topics) as [Topic, CopyReport['topics'][Topic]][],
  )
  const verdict = equal
    ? 'equal, key by key'
    : `NOT EQUAL${first ? `: ${first.topic} ${first.partition}@${first.offset}, key ${first.key}: ${first.what}` : ''}`
  return `${rows}${copied} copied, ${skipped} were there, ${duration(wallMs)}; ${verdict}\n`
}
