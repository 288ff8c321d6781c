/**
 * Scored turns that wait for a batch, by policy, and whether a slow judge is to be asked about one more. The trainer takes
 * the turn that was scored last first, so that no single turn is known to come too late; but of more than a few batches of
 * waiting turns the rest becomes stale, whichever they are.
 *
 * What a process has read since its start, and no part of a snapshot: who knows of fewer turns than wait asks judges about
 * more than learning uses, which is waste and no disagreement.
 */
import {
  lineageDistance,
  weightLine,
  type BatchSealed,
  type ScoresEvent,
  type TurnsState,
  type TurnState,
  type WeightLine,
  type WeightsState,
} from '@instar/events'

/** `at`: of the score, ms since the epoch. */
type Scored = { key: string; subject: string; version: number; at: number }
type Counts = { turns: number; keys: Map<string, number>; subjects: Map<string, number> }
/** `turns`: by id, those scored first before others. `taken`: turns of batches, whose scores may be read later. */
type OfPolicy = { turns: Map<string, Scored>; taken: Set<string>; versions: Map<number, Counts> }

/**
 * Milliseconds after its score for which a turn counts as waiting. While the trainer stands (frozen, waits for other keys)
 * the room is free again after this time, so that what it finds is never older.
 */
export const WAITING_MS = 10 * 60_000
/** Turns of a policy that are counted, and turns of batches that are remembered; the oldest are forgotten. */
export const MOST_WAITING = 8192

export class WaitingTurns {
  /** Raised when turns leave, or are wanted that were not: after a change what is held is to be looked at. */
  left = 0
  readonly #policies = new Map<string, OfPolicy>()

  /** A score that counts, a skip among them. */
  foldScore({ type, turn, policy, version, subject, of, at }: ScoresEvent): void {
    // The outcome of an episode decides when its turns are taken.
    if (type === 'TurnSkipped' || (of && (of.unusable !== null || of.task !== null))) this.remove(policy, turn)
    // A revision may be of a turn that a batch has taken.
    else if (type === 'TurnScored') this.add(policy, turn, { key: of?.key ?? '', subject, version, at })
  }

  /** After an outcome of the session counted: its turns are taken with the episode, and those that are held are wanted. */
  foldOutcome(turns: readonly TurnState[]): void {
    for (const { policy, turn, outcomeBy } of turns) if (outcomeBy !== null) this.remove(policy, turn)
    this.left += 1
  }

  foldBatch({ policy, items, dropped }: BatchSealed): void {
    const { taken } = this.#of(policy)
    for (const { turn } of [...items, ...dropped]) {
      this.remove(policy, turn)
      taken.add(turn)
    }
    for (const turn of taken) {
      if (taken.size <= MOST_WAITING) break
      taken.delete(turn)
    }
  }

  /** Counts a turn that a judge is asked about, until its score or skip is read. */
  begin({ policy, turn, key, subject, version, task, outcomeBy }: TurnState, now: number): void {
    if (task === null && outcomeBy === null) this.add(policy, turn, { key: key ?? '', subject, version, at: now })
  }

  add(policy: string, turn: string, scored: Scored): void {
    const own = this.#of(policy)
    if (own.taken.has(turn) || own.turns.has(turn)) return
    own.turns.set(turn, scored)
    count(own, scored, 1)
    if (own.turns.size > MOST_WAITING) this.remove(policy, own.turns.keys().next().value ?? '')
  }

  remove(policy: string, turn: string): void {
    const own = this.#policies.get(policy)
    const scored = own?.turns.get(turn)
    if (!own || !scored) return
    own.turns.delete(turn)
    count(own, scored, -1)
    this.left += 1
  }

  /** Forgets turns that were scored more than WAITING_MS ago. A score of a clock that is ahead counts from now on. */
  expire(now: number): void {
    for (const [policy, { turns }] of this.#policies)
      for (const [turn, scored] of turns) {
        if (scored.at > now) scored.at = now
        else if (scored.at > now - WAITING_MS) break
        else this.remove(policy, turn)
      }
  }

  /** A batch of the policy was sealed. */
  hasBatch(policy: string): boolean {
    return (this.#policies.get(policy)?.taken.size ?? 0) > 0
  }

  has(policy: string, turn: string): boolean {
    return this.#policies.get(policy)?.turns.has(turn) ?? false
  }

  /** Of all policies. */
  get size(): number {
    let size = 0
    for (const { turns } of this.#policies.values()) size += turns.size
    return size
  }

  /**
   * Whether one more turn is wanted while at most `most` of these versions are to wait. In the upper half of the room a
   * subject has at most its equal part. Beyond `most` an API key still has its equal part, so that no key's turns keep
   * those of others out; a client chooses its subjects, so that they have no such right.
   */
  hasRoom(
    policy: string,
    { key, subject }: Pick<Scored, 'key' | 'subject'>,
    usable: UsableVersion,
    most: number,
  ): boolean {
    const all = [...this.#of(policy).versions].flatMap(([version, counts]) => (usable(version) ? [counts] : []))
    const total = all.reduce((sum, { turns }) => sum + turns, 0)
    if (total < most / 2) return true
    const isBelow = (tables: readonly ReadonlyMap<string, number>[], name: string): boolean => {
      const names = new Set([name, ...tables.flatMap((table) => [...table.keys()])])
      const own = tables.reduce((sum, table) => sum + (table.get(name) ?? 0), 0)
      return own < Math.max(1, Math.floor(most / names.size))
    }
    return total < most
      ? isBelow(
          all.map(({ subjects }) => subjects),
          subject,
        )
      : isBelow(
          all.map(({ keys }) => keys),
          key,
        )
  }

  #of(policy: string): OfPolicy {
    let own = this.#policies.get(policy)
    if (!own) this.#policies.set(policy, (own = { turns: new Map(), taken: new Set(), versions: new Map() }))
    return own
  }
}

type UsableVersion = (version: number) => boolean

const count = ({ versions }: OfPolicy, { key, subject, version }: Scored, by: 1 | -1): void => {
  let counts = versions.get(version)
  if (!counts) versions.set(version, (counts = { turns: 0, keys: new Map(), subjects: new Map() }))
  counts.turns += by
  if (counts.turns === 0) return void versions.delete(version)
  for (const [table, name] of [
    [counts.keys, key],
    [counts.subjects, subject],
  ] as const) {
    const now = (table.get(name) ?? 0) + by
    if (now > 0) table.set(name, now)
    else table.delete(name)
  }
}

const isUsable = (line: WeightLine, version: number, staleness: number | null): boolean => {
  const distance = lineageDistance(line, version, line.head)
  return distance !== null && (staleness === null || distance <= staleness)
}

/**
 * Whether a slow judge is to be asked about the turn now. Always: turns of a branch, or of a line without a batch, turns that were
 * imported, those of a task (its client waits for their episode) or that an outcome covers (the trainer takes the episode
 * when all of them are scored), and candidates of a request of which one is covered or has been asked about. `waiting`: scored turns that may wait for a batch; null: any number.
 */
export const isWanted = (
  state: { turns: TurnsState; weights: WeightsState; waiting: WaitingTurns },
  turn: TurnState,
  { waiting: most, staleness }: { waiting: number | null; staleness: number | null },
): boolean => {
  const { policy, version, key, subject, task, outcomeBy, group, candidates, session } = turn
  const line = weightLine(state.weights, policy)
  if (most === null || task !== null || outcomeBy !== null || !line.versions.has(version)) return true
  const isTrained = line.started?.mode === 'live' && (line.verdictCount > 0 || state.waiting.hasBatch(policy))
  if (!isTrained) return true
  const beside = candidates > 1 ? (state.turns.sessions.get(session)?.byGroup.get(group) ?? []) : []
  if (beside.some((one) => one.outcomeBy !== null || state.waiting.has(policy, one.turn))) return true
  const usable: UsableVersion = (one) => isUsable(line, one, staleness)
  return state.waiting.hasRoom(policy, { key: key ?? '', subject }, usable, most)
}
