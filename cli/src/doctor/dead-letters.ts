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

type Group = { topic: Topic; todo: string; count: number; listed: string[] }

/**
 * Counts unreadable records by topic and cause, and keeps the first of each. `damaged`: records that could not be
 * decoded; those of them that are dead letters count once.
 */
export class UnreadableRecords {
  readonly #groups = new Map<string, Group>()
  readonly #damaged: Map<string, Unread>

  constructor(damaged: readonly Unread[] = []) {
    this.#damaged = new Map(damaged.map((record) => [positionOf(record), record]))
  }

  addDeadLetter(letter: Unread): void {
    this.#damaged.delete(positionOf(letter))
    this.#add(letter, FOREIGN_REASONS.has(letter.reason) ? FOREIGN : SET_ASIDE)
  }

  /** One finding for each topic and cause. Call it once, after all dead letters. */
  findings(): Finding[] {
    for (const record of this.#damaged.values()) this.#add(record, DAMAGED)
    if (this.#groups.size === 0) return [ok('none')]
    return [...this.#groups.values()].map(({ topic, todo, count, listed }) =>
      note(
        `${topic}: ${countText(count, 'record')} that cannot be decoded: ${listed.join(', ')}${count > listed.length ? ` and ${count - listed.length} more` : ''}; those that a service has read are copied to dlq.${topic}`,
        todo,
      ),
    )
  }

  #add({ topic, partition, offset, reason }: Unread, todo: string): void {
    const name = `${topic}\n${todo}`
    const group = this.#groups.get(name) ?? { topic, todo, count: 0, listed: [] }
    this.#groups.set(name, group)
    group.count++
    if (group.listed.length < MAX_LISTED) group.listed.push(`${partition}@${offset} (${reason})`)
  }
}

const positionOf = ({ topic, partition, offset }: Unread): string => `${topic} ${partition}@${offset}`
