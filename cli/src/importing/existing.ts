/** Reads what the log already holds of the sessions of an import, and the versions of the policy. */
import { decodeReadable, foldWeights, initialWeights, weightLine, type Logged, type WeightsEvent } from '@instar/events'
import { readUpgrades, type EventLog } from '@instar/log'

export type ExistingRecords = {
  /** Ids of turns. */
  turns: ReadonlySet<string>
  /** Ids of feedback. */
  feedback: ReadonlySet<string>
  /** Sessions that have ended with an outcome. */
  outcomes: ReadonlySet<string>
  /** Ids of turns of aborted episodes. */
  discarded: ReadonlySet<string>
  /** Version → sha256 of its adapter, null for the base. */
  versions: ReadonlyMap<number, string | null>
  /** The policy's base model; null before its first record. */
  base: { name: string; sha256: string } | null
}

/** Before the first start the policy has its base version alone. */
export const NO_RECORDS: ExistingRecords = {
  turns: new Set(),
  feedback: new Set(),
  outcomes: new Set(),
  discarded: new Set(),
  versions: new Map([[0, null]]),
  base: null,
}

export const readExisting = async (
  log: EventLog,
  policy: string,
  sessions: ReadonlySet<string>,
): Promise<ExistingRecords> => {
  const turns = new Set<string>()
  const feedback = new Set<string>()
  const outcomes = new Set<string>()
  const discarded = new Set<string>()
  const bySession = new Map<string, string[]>()
  const weights = initialWeights()
  await readUpgrades(log)
  const to = await log.ends(['turns', 'weights'])
  for await (const records of log.read('turns', { to })) {
    for (const record of records) {
      if (!sessions.has(record.key)) continue
      const event = decodeReadable(record)?.event
      if (event?.type === 'TurnCaptured' || event?.type === 'TurnAborted') {
        turns.add(event.turn)
        const ofSession = bySession.get(event.session)
        if (ofSession) ofSession.push(event.turn)
        else bySession.set(event.session, [event.turn])
      } else if (event?.type === 'FeedbackGiven') feedback.add(event.id)
      else if (event?.type === 'SessionClosed') {
        if ((event.outcome ?? null) !== null && bySession.has(event.session)) outcomes.add(event.session)
        if (event.discarded === true) for (const turn of bySession.get(event.session) ?? []) discarded.add(turn)
      }
    }
  }
  for await (const records of log.read('weights', { key: policy, to }))
    for (const record of records.flatMap((one) => decodeReadable(one) ?? []))
      foldWeights(weights, record as Logged<WeightsEvent>)
  const line = weightLine(weights, policy)
  const versions = line.started
    ? new Map([...line.versions].map(([version, { adapter }]) => [version, adapter]))
    : NO_RECORDS.versions
  return { turns, feedback, outcomes, discarded, versions, base: line.started?.base ?? null }
}
