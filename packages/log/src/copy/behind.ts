/** How many records a copy lacks, from the ends of both logs: no record is read but announcements. */
import { TOPICS, type Topic } from '@instar/events/flow'
import type { CopySource, Offsets } from '../port.ts'
import { countsOf } from './compare.ts'

/** `source`, `copy`: records that each has; of `upgrades` those of the source, since the copy may have others. */
export type TopicBehind = { source: number; copy: number }

/** The number of records between two positions, exact unless Kafka's transactions ended between them. */
export const countBetween = (log: CopySource, from: Offsets, to: Offsets): number =>
  TOPICS.reduce((sum, topic) => sum + sizeOf(log, to, topic) - sizeOf(log, from, topic), 0)

const sizeOf = ({ sequential }: CopySource, ends: Offsets, topic: Topic): number => {
  const all = Object.values(ends[topic] ?? {})
  return sequential ? Math.max(0, ...all) : all.reduce((sum, end) => sum + end, 0)
}

/** Records of the source that `deadLetters` names cannot be copied, and count as if they were. */
export const behindOf = async (
  from: CopySource,
  to: CopySource,
  deadLetters: (topic: Topic) => Promise<number> = () => Promise.resolve(0),
): Promise<Record<Topic, TopicBehind>> => {
  // The copy first: what is copied meanwhile must not make it longer than the source.
  const there = { log: to, ends: await to.ends(TOPICS) }
  const here = { log: from, ends: await from.ends(TOPICS) }
  const entries = TOPICS.filter((topic) => topic !== 'upgrades').map(
    async (topic) =>
      [
        topic,
        { source: sizeOf(from, here.ends, topic) - (await deadLetters(topic)), copy: sizeOf(to, there.ends, topic) },
      ] as const,
  )
  const [announced, copied] = await Promise.all([countsOf(here, 'upgrades'), countsOf(there, 'upgrades')])
  const upgrades = { source: 0, copy: 0 }
  for (const [id, count] of announced) {
    upgrades.source += count
    upgrades.copy += Math.min(count, copied.get(id) ?? 0)
  }
  return { ...Object.fromEntries(await Promise.all(entries)), upgrades } as Record<Topic, TopicBehind>
}
