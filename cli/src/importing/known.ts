/** What a log holds already of the sessions that are imported, and which versions its policy has. */
import { decodeReadable, foldWeights, initialWeights, weightLine, type Logged, type WeightsEvent } from '@instar/events'
import { readUpgrades, type EventLog } from '@instar/log'

export type Known = {
  turns: ReadonlySet<string>
  feedback: ReadonlySet<string>
  /** Version → its adapter, null for the base. */
  versions: ReadonlyMap<number, string | null>
  /** The line's base model; null: the line has not begun. */
  base: { name: string; sha256: string } | null
}

/** Before anything was ever started: the policy begins with its base. */
export const NOTHING_KNOWN: Known = {
  turns: new Set(),
  feedback: new Set(),
  versions: new Map([[0, null]]),
  base: null,
}

export const knownOf = async (log: EventLog, policy: string, sessions: ReadonlySet<string>): Promise<Known> => {
  const turns = new Set<string>()
  const feedback = new Set<string>()
  const weights = initialWeights()
  await readUpgrades(log)
  const to = await log.ends(['turns', 'weights'])
  for await (const records of log.read('turns', { to })) {
    for (const record of records) {
      if (!sessions.has(record.key)) continue
      const event = decodeReadable(record)?.event
      if (event?.type === 'TurnCaptured' || event?.type === 'TurnAborted') turns.add(event.turn)
      else if (event?.type === 'FeedbackGiven') feedback.add(event.id)
    }
  }
  for await (const records of log.read('weights', { key: policy, to }))
    for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
      foldWeights(weights, record as Logged<WeightsEvent>)
  const line = weightLine(weights, policy)
  const versions = line.started
    ? new Map([...line.versions].map(([version, { adapter }]) => [version, adapter]))
    : NOTHING_KNOWN.versions
  return { turns, feedback, versions, base: line.started?.base ?? null }
}
