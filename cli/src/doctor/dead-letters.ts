/** Findings about records that cannot be decoded. */
import type { Topic } from '@instar/events/flow'
import type { DeadLetter } from '@instar/log/kafka/index'
import { countText, note, ok, type Finding } from './finding.ts'

/** Records listed in one finding. */
const MAX_LISTED = 5

type Cause = { reason: RegExp; todo: string }

/** By the reason of a dead letter, in the wording of this build and of earlier ones. */
const CAUSES: readonly Cause[] = [
  {
    reason: /there is no schema \d+/,
    todo: 'The registry does not hold the schema. Check that INSTAR_REGISTRY is the one that the log was written with; restore its storage if it lost schemas. The records stay in their topic; services and projections read them when they start from the beginning of the log (delete their snapshots).',
  },
  {
    reason: /does not (?:begin|start) with a schema id|has no key|key is not UTF-8/,
    todo: 'A program other than Instar writes to this topic. Find it by the key and the time of the record, and remove its permission to write. The records stay in their topic and are skipped.',
  },
]
const OTHER_CAUSE =
  'The bytes do not match the schema of the record type. Compare the record with a copy of the log. It stays in its topic and is skipped; the turn or score that it should hold is lost.'

/** One finding for each topic and cause. */
export const deadLetterFindings = (
  letters: readonly Pick<DeadLetter, 'topic' | 'partition' | 'offset' | 'reason'>[],
): Finding[] => {
  if (letters.length === 0) return [ok('none')]
  const groups = Map.groupBy(letters, ({ topic, reason }) => `${topic}\n${todoOf(reason)}`)
  return [...groups.values()].map((group) => {
    const topic: Topic = group[0]!.topic
    const listed = group
      .slice(0, MAX_LISTED)
      .map(({ partition, offset, reason }) => `${partition}@${offset} (${reason})`)
      .join(', ')
    const more = group.length > MAX_LISTED ? ` and ${group.length - MAX_LISTED} more` : ''
    return note(
      `${topic}: ${countText(group.length, 'record')} that cannot be decoded: ${listed}${more}; those that a service has read are copied to dlq.${topic}`,
      todoOf(group[0]!.reason),
    )
  })
}

const todoOf = (reason: string): string => CAUSES.find((cause) => cause.reason.test(reason))?.todo ?? OTHER_CAUSE
