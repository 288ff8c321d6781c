/**
 * What a checkpoint's state lacks, made of its sessions: the recent ones, and the names of their turns, in the order of the turns'
 * times. By the log a turn may come before one of an earlier time in another partition.
 */
import { InstarError } from '@instar/events'
import { inSlices, type Snapshot } from '@instar/log'
import type { ListedSession } from './core/listed-sessions.ts'
import { MOST_NAMED } from './core/names.ts'
import { heldNamesOf, type Limits } from './core/session-index.ts'
import type { NameTable } from './name-table.ts'
import { TurnsByTime } from './turns-by-time.ts'

/** Names that wait in memory before they are written. */
const NAMES_OF_WRITE = 10_000

/** `first`: place of the first turn that is named; `orders`: of the turns from it on, their places among all turns. */
type Recent = { first: number; orders: number[] }

/**
 * The recent sessions, within the limits, in the order of their last turns. `names`: gets the names of all turns; null: it has
 * them. Throws `snapshot_damaged`, and `no_temporary_file` where the one beside the snapshot cannot be written.
 */
export const fill = async (
  snapshot: Pick<Snapshot, 'briefs' | 'path'>,
  limits: Limits,
  names: NameTable | null,
): Promise<Map<string, ListedSession>> => {
  const path = `${snapshot.path}.filling`
  let turns: TurnsByTime | null = null
  try {
    turns = new TurnsByTime(path)
    let record = ''
    await inSlices(snapshot.briefs(), ({ session, first, turns: part }) => {
      // Unlike that of names that were added in the order of the log.
      if (record === '' && part[0]) record = `filled-${part[0].record}`
      turns!.add(session, first, part, heldNamesOf)
    })
    const recent = recentOf(turns, limits)
    let order = 0
    let waiting = 0
    for (const { session, place, at, names: own } of turns.turns()) {
      const one = recent.get(session)
      if (one && place >= one.first) one.orders[place - one.first] = order
      order += 1
      names?.add(own, at, session, record)
      waiting += own.length
      if (waiting < NAMES_OF_WRITE) continue
      waiting = 0
      await names?.write()
    }
    await names?.write()
    return new Map([...recent].map(([session, one]) => [session, listed(session, one)]))
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    const what = `the temporary file ${path} cannot be written: ${(cause as Error).message}`
    throw new InstarError('no_temporary_file', what, {}, { cause })
  } finally {
    turns?.close()
  }
}

/** The sessions touched last, in the order of their last turns. */
const recentOf = (turns: TurnsByTime, limits: Limits): Map<string, Recent> => {
  const found: [string, Recent][] = []
  let count = 0
  for (const { session, turns: all } of turns.latest(limits.sessions)) {
    count += Math.min(all, MOST_NAMED)
    if (found.length > 0 && count > limits.turns) break
    found.push([session, { first: Math.max(0, all - MOST_NAMED), orders: [] }])
  }
  return new Map(found.reverse())
}

const listed = (session: string, { first, orders }: Recent): ListedSession => [
  session,
  first,
  orders.map((order, i) => order - (orders[i - 1] ?? 0)),
  [],
]
