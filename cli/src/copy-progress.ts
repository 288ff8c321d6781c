/** Text output of what reads or copies a whole log: its progress, and the report of a copy. */
import type { CopyProgress, CopyRound, FollowReport, TopicBehind } from '@instar/log'
import type { Topic } from '@instar/events/flow'
import { progressBar } from './progress-bar.ts'
import { table } from './table.ts'

export const sizeText = (bytes: number): string =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`

export const durationText = (ms: number): string =>
  ms < 90_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.ceil(ms / 60_000)} min`

/** Interval between two lines where the output is not a terminal. */
const LINE_INTERVAL_MS = 5000

/**
 * On a terminal, one line that is overwritten. Elsewhere, a line every LINE_INTERVAL_MS and one for each topic with
 * records.
 */
export const createCopyProgress = (
  err: (text: string) => void,
  terminal: boolean,
  now: () => number = () => performance.now(),
): { show(progress: CopyProgress): void; end(): void } => {
  let step = ''
  let stepStartedAt = 0
  let printedAt = 0
  return {
    show({ phase, topic, share, records, bytes }) {
      const at = now()
      if (step !== `${phase} ${topic}`) {
        step = `${phase} ${topic}`
        stepStartedAt = at
        printedAt = at
      }
      const remaining =
        share > 0 && share < 1
          ? `, about ${durationText(((at - stepStartedAt) * (1 - share)) / share)} left of this topic`
          : ''
      const percent = String(Math.floor(100 * share)).padStart(3)
      const line = `${phase.padEnd(12)} ${topic.padEnd(7)} ${progressBar(share)} ${percent}%  ${records} records, ${sizeText(bytes)}${remaining}`
      if (terminal) err(`\r\x1b[2K${line}`)
      else if ((share === 1 && records > 0) || at - printedAt >= LINE_INTERVAL_MS) {
        printedAt = at
        err(`${line}\n`)
      }
    },
    end() {
      if (terminal) err('\r\x1b[2K')
    },
  }
}

/** As `createCopyProgress`, for things that are counted. `what`: their name, plural. */
export const createCountProgress = (
  what: string,
  err: (text: string) => void,
  terminal: boolean,
  now: () => number = () => performance.now(),
): ((done: number, total: number) => void) => {
  let printedAt = now()
  return (done, total) => {
    const line = `${progressBar(done / total)} ${done}/${total} ${what}`
    if (terminal) return err(`\r\x1b[2K${line}`)
    if (now() - printedAt < LINE_INTERVAL_MS) return
    printedAt = now()
    err(`${line}\n`)
  }
}

/** As `createCopyProgress`, for a copy that goes on. `begin` is called before the first line. */
export const createFollowProgress = (
  err: (text: string) => void,
  terminal: boolean,
  begin: () => void,
  now: () => number = () => performance.now(),
): ((round: CopyRound) => void) => {
  let printedAt = -Infinity
  let copied = 0
  return (round) => {
    if (printedAt === -Infinity) begin()
    copied += round.copied
    const line = `follows      the copy is ${round.behind} records behind, ${copied} copied since the first copy`
    if (terminal) return err(`\r\x1b[2K${line}`)
    if (now() - printedAt < LINE_INTERVAL_MS) return
    printedAt = now()
    err(`${line}\n`)
  }
}

export const behindText = (topics: Record<Topic, TopicBehind>, total: number): string =>
  `${table(
    [
      { name: 'topic', of: ([topic]) => topic },
      { name: 'source', of: ([, { source }]) => source },
      { name: 'copy', of: ([, { copy }]) => copy },
      { name: 'behind', of: ([, { source, copy }]) => Math.max(0, source - copy) },
    ],
    Object.entries(topics) as [Topic, TopicBehind][],
  )}the copy is ${total} records behind\n`

type CopiedTopic = FollowReport['topics'][Topic] & { digest?: string }
type CopyResult = Omit<FollowReport, 'topics' | 'rounds'> & { topics: Record<Topic, CopiedTopic> }

export const copyReportText = ({ topics, copied, skipped, equal, first }: CopyResult, wallMs: number): string => {
  const rows = table(
    [
      { name: 'topic', of: ([topic]) => topic },
      { name: 'records', of: ([, { records }]) => records },
      { name: 'bytes', of: ([, { bytes }]) => bytes },
      { name: 'digest', of: ([, { digest }]) => digest?.slice(0, 16) ?? '' },
    ],
    Object.entries(topics) as [Topic, CopiedTopic][],
  )
  const difference = first ? `: ${first.topic} ${first.partition}@${first.offset}, key ${first.key}: ${first.what}` : ''
  const verdict = equal ? 'every key is equal' : `NOT EQUAL${difference}`
  return `${rows}${copied} copied, ${skipped} already present, ${durationText(wallMs)}; ${verdict}\n`
}
