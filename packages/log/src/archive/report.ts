/** What an archive holds, from its manifest. */
import { TOPICS, type Topic } from '@instar/events/flow'
import type { Position } from '../port.ts'
import { endOfPartition, type Manifest } from './manifest.ts'

/** `bytes`: of objects. */
export type ArchivedTopic = { records: number; objects: number; bytes: number; ends: Record<number, number> }

/** `first`: the positions of at most `MAX_DAMAGED_OFFSETS` per partition. */
export type DamagedReport = { records: number; first: Position[] }

export const damagedOf = ({ topics }: Manifest): DamagedReport => {
  const all = TOPICS.flatMap((topic) => topics[topic].map(({ damaged }, partition) => ({ topic, partition, damaged })))
  return {
    records: all.reduce((sum, { damaged }) => sum + (damaged?.records ?? 0), 0),
    first: all.flatMap(({ topic, partition, damaged }) =>
      (damaged?.offsets ?? []).map((offset) => ({ topic, partition, offset })),
    ),
  }
}

export const topicsOf = (manifest: Manifest): Record<Topic, ArchivedTopic> =>
  Object.fromEntries(
    TOPICS.map((topic) => {
      const objects = manifest.topics[topic].flatMap((partition) => partition.objects)
      return [
        topic,
        {
          records: objects.reduce((sum, { records }) => sum + records, 0),
          objects: objects.length,
          bytes: objects.reduce((sum, { bytes }) => sum + bytes, 0),
          ends: Object.fromEntries(
            manifest.topics[topic].map((_, partition) => [partition, endOfPartition(manifest, topic, partition)]),
          ),
        },
      ]
    }),
  ) as Record<Topic, ArchivedTopic>

/** For people: `turns 2@17, turns 3@5 and 4 more`, of at most `most` positions. */
export const placesText = ({ records, first }: DamagedReport, most: number): string => {
  const shown = first.slice(0, most).map(({ topic, partition, offset }) => `${topic} ${partition}@${offset}`)
  const more = records > shown.length ? ` and ${records - shown.length} more` : ''
  return `${shown.join(', ')}${more}`
}
