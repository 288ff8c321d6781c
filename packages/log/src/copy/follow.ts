/** A copy that goes on while the source is written to, and ends when its writers have stopped. */
import { setTimeout as delay } from 'node:timers/promises'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { CopySource } from '../port.ts'
import type { CopiedPart } from './compare.ts'
import { copyRest, copyUpToNow, sameEnds, type CopyOptions, type CopyReport, type Reached } from './copy.ts'
import { endsOfAll } from './ends.ts'
import { countBetween } from './behind.ts'

/** `copied`: records of this round. `behind`: records that the source has more, after it. */
export type CopyRound = { copied: number; behind: number }

export type FollowOptions = CopyOptions & {
  /** Aborted when no process writes to the source any more: the rest is copied, and the copy ends. */
  writersStopped: AbortSignal
  onRound?(round: CopyRound): void
  /** From the end of one round to the start of the next, ms. Default 500. */
  pauseMs?: number
  /** So long the source must not have grown, ms, after `writersStopped`. Default 2,000. */
  quietMs?: number
  /** A source that grows for so long after `writersStopped`, ms, is still written to. Default 20,000. */
  settleMs?: number
}

/** As of a copy, of all rounds together. `sourceGrew`: it was still written to, so the copy lacks records. */
export type FollowReport = Omit<CopyReport, 'topics'> & {
  topics: Record<Topic, { records: number; bytes: number }>
  /** After the first copy. */
  rounds: number
}

/**
 * Copies the source as `copyLog` does, then again and again what was appended since, of which both logs are read and compared:
 * the last round costs what was appended since the one before it, whatever the length of the log. `signal` ends the first
 * copy; later `writersStopped` ends it. Throws as `copyLog` does.
 */
export const followLog = async (options: FollowOptions): Promise<FollowReport> => {
  const { from, to, writersStopped, onRound = () => undefined } = options
  const { pauseMs = 500, quietMs = 2000, settleMs = 20_000 } = options
  const first = await copyUpToNow(options)
  const total: FollowReport = { ...first.report, rounds: 0 }
  let reached = first.reached
  let grewAt = performance.now()
  let stoppedAt: number | undefined
  while (total.equal) {
    const round = await copyRound(from, to, reached)
    reached = round.reached
    add(total, round)
    const ends = await from.ends(TOPICS)
    total.sourceGrew = !sameEnds(reached.source, ends)
    onRound({ copied: round.copied, behind: countBetween(from, reached.source, ends) })
    const now = performance.now()
    if (round.copied > 0 || total.sourceGrew) grewAt = now
    if (writersStopped.aborted) {
      stoppedAt ??= now
      if (now - Math.max(grewAt, stoppedAt) >= quietMs) break
      if (now - stoppedAt >= settleMs) {
        total.sourceGrew = true
        break
      }
    }
    await delay(stoppedAt === undefined ? pauseMs : Math.min(pauseMs, 100), undefined, {
      signal: stoppedAt === undefined ? writersStopped : undefined,
    }).catch(() => undefined)
  }
  return total
}

const copyRound = async (from: CopySource, to: FollowOptions['to'], reached: Reached) => {
  const parts = new Map<Topic, CopiedPart>(
    TOPICS.map((topic) => [topic, { records: 0, from: reached.source, counts: undefined }]),
  )
  const source = { log: from, start: reached.source, ends: await endsOfAll(from) }
  return copyRest(source, { log: to, start: reached.copy }, parts, { onProgress: () => undefined })
}

const add = (total: FollowReport, round: Awaited<ReturnType<typeof copyRound>>): void => {
  total.rounds += 1
  total.copied += round.copied
  total.equal = round.equal
  total.first = round.first
  for (const topic of TOPICS) {
    const { records, bytes } = total.topics[topic]
    total.topics[topic] = { records: records + round.topics[topic].records, bytes: bytes + round.topics[topic].bytes }
  }
}
