/** What nobody can read: what each is, and what to do about it. */
import type { Topic } from '@instar/events/flow'
import type { DeadLetter } from '@instar/log/kafka/index'
import { counted, fine, note, type Finding } from './finding.ts'

const LISTED = 5

type Kind = { of: RegExp; todo: string }

const KINDS: readonly Kind[] = [
  {
    of: /there is no schema \d+/,
    todo: 'The registry does not know the schema: check that INSTAR_REGISTRY is the one that the log was written with, and restore its storage if it lost ids. The records stand where they were; services and projections read them when they start from the beginning (delete their snapshots).',
  },
  {
    of: /does not begin with a schema id|has no key|key is not UTF-8/,
    todo: "Something other than Instar writes to this topic: find it by the record's key and time, and take its right to write. The records stay where they are and disturb nobody.",
  },
]
const OTHER =
  'Its bytes break the schema of its type: a faulty or foreign writer. Compare it with a copy of the log. It stays where it is and nothing waits for it; a turn or score that it was meant to be is lost.'

export const deadLettersFound = (
  letters: readonly Pick<DeadLetter, 'topic' | 'partition' | 'offset' | 'reason'>[],
): Finding[] => {
  if (letters.length === 0) return [fine('none')]
  const groups = Map.groupBy(letters, ({ topic, reason }) => `${topic}\n${todoOf(reason)}`)
  return [...groups.values()].map((of) => {
    const topic: Topic = of[0]!.topic
    const listed = of
      .slice(0, LISTED)
      .map(({ partition, offset, reason }) => `${partition}@${offset} (${reason})`)
      .join(', ')
    return note(
      `${topic}: ${counted(of.length, 'record')} that nobody can read: ${listed}${of.length > LISTED ? ` and ${of.length - LISTED} more` : ''}; what a service met has a copy in dlq.${topic}`,
      todoOf(of[0]!.reason),
    )
  })
}

const todoOf = (reason: string): string => KINDS.find(({ of }) => of.test(reason))?.todo ?? OTHER
