/** Findings about records that cannot be decoded. */
import type { Topic } from '@instar/events/flow'
import { NOT_OF_THE_LOG, type DeadLetter } from '@instar/log/kafka/index'
import { countText, note, ok, type Finding } from './finding.ts'

/** Records listed in one finding. */
const MAX_LISTED = 5

const FOREIGN =
  'A program other than Instar writes to this topic. Find it by the key and the time of the record, and remove its permission to write. The records stay in their topic and are skipped.'
const SET_ASIDE =
  '`instar log set-aside` put it there, for the reason given, or an earlier build. It stays in its topic and is skipped; the turn or score that it should hold is lost.'
const DAMAGED =
  'The bytes do not match the schema of the record type. Compare the record with a copy of the log. It stays in its topic and is skipped; the turn or score that it should hold is lost.'

const FOREIGN_REASONS: ReadonlySet<string> = new Set(Object.values(NOT_OF_THE_LOG))

type Unread = Pick<DeadLetter, 'topic' | 'partition' | 'offset' | 'reason'>

/** One finding for each topic and cause. `damaged`: records that could not be decoded and are no dead letters. */
export const deadLetterFindings = (letters: readonly Unread[], damaged: readonly Unread[] = []): Finding[] => {
  const found = [
    ...letters.map((letter) => ({ ...letter, todo: FOREIGN_REASONS.has(letter.reason) ? FOREIGN : SET_ASIDE })),
    ...damaged.map((record) => ({ ...record, todo: DAMAGED })),
  ]
  if (found.length === 0) return [ok('none')]
  const groups = Map.groupBy(found, ({ topic, todo }) => `${topic}\n${todo}`)
  return [...groups.values()].map((group) => {
    const topic: Topic = group[0]!.topic
    const listed = group
      .slice(0, MAX_LISTED)
      .map(({ partition, offset, reason }) => `${partition}@${offset} (${reason})`)
      .join(', ')
    const more = group.length > MAX_LISTED ? ` and ${group.length - MAX_LISTED} more` : ''
    return note(
      `${topic}: ${countText(group.length, 'record')} that cannot be decoded: ${listed}${more}; those that a service has read are copied to dlq.${topic}`,
      group[0]!.todo,
    )
  })
}
