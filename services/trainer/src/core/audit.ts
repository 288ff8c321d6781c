/**
 * Audit of batches: derives each batch again from the records that it names (turns, scores, baselines of the previous
 * batch, advantages, parent) and names the record of the first difference.
 */
import { taskOf, updateLine, weightLine, type BatchSealed, type ScoresEvent, type SessionState } from '@instar/events'
import type { AuditState } from './audit-state.ts'
import { combine } from './baseline.ts'
import { advantagesOf, outcomeOf } from './episodes.ts'

export type Difference = { topic: string; key: string; record: string; type: string; what: string }

/** The policy's batches in the order of the chain, each with its first difference or null. */
export function* auditBatches(
  state: AuditState,
): Generator<{ id: string; sealed: BatchSealed; difference: Difference | null }> {
  const batches = state.batches.get(state.policy)
  for (let i = 0; i < (batches?.length ?? 0); i += 1) {
    const batch = updateLine(state.updates, state.policy).byId.get(batches?.at(i) ?? '')
    if (batch) yield { id: batch.id, sealed: batch.sealed, difference: auditBatch(state, batch) }
  }
}

/** The first difference of a batch, or null. Batches of branches are not audited here and give null. */
export const auditBatch = (
  state: AuditState,
  { id, sealed }: { id: string; sealed: BatchSealed },
): Difference | null => {
  const sealing = state.sealings.get(id)
  if (!sealing) return null
  const baselines = new Map(sealing.baselines.map(({ subject, ...baseline }) => [subject, baseline]))
  const inBatch = (what: string): Difference => ({
    topic: 'updates',
    key: sealed.policy,
    record: id,
    type: 'BatchSealed',
    what,
  })
  for (const item of sealed.items) {
    const turn = state.turns.turns.get(item.turn)
    if (turn?.record !== item.record)
      return {
        topic: 'turns',
        key: item.session,
        record: item.record,
        type: 'TurnCaptured',
        what: turn ? `turn ${item.turn} is now record ${turn.record}` : `turn ${item.turn} is not on the log`,
      }
    const score = state.scoreRecords.get(item.score)
    if (!score || score.turn !== item.turn)
      return {
        topic: 'scores',
        key: sealed.policy,
        record: item.score,
        type: 'TurnScored',
        what: `the score of turn ${item.turn} that batch ${sealed.number} names is not on the log`,
      }
    const wrongReward = auditReward(state, sealed, item, score)
    if (wrongReward) return wrongReward === 'reward' ? inBatch(`reward of turn ${item.turn}`) : wrongReward
    if (!sameHint(score.type === 'TurnSkipped' ? null : score.hint, item.hint))
      return inBatch(`hint of turn ${item.turn}`)
    if (sealing.repeated.includes(item.turn)) return inBatch(`turn ${item.turn} is in an earlier batch`)
  }
  const derived = [taskOf, taskAtEnd].map((taskIn) => {
    const rewarded = sealed.items.map((item) => {
      const { group = item.turn, key = null } = state.turns.turns.get(item.turn) ?? {}
      const session = item.closing ? state.turns.sessions.get(item.session) : undefined
      return { ...item, key, group, task: session ? taskIn(session) : null }
    })
    const { items, after } = advantagesOf(rewarded, baselines, sealed.settings)
    const wrong = sealed.items.findIndex(
      (item, i) => items[i]?.baseline !== item.baseline || items[i]?.advantage !== item.advantage,
    )
    return { after, wrong }
  })
  const { after, wrong } = derived.find((one) => one.wrong < 0) ?? derived[0]!
  if (wrong >= 0) return inBatch(`advantage of turn ${sealed.items[wrong]?.turn}`)
  if (JSON.stringify(after) !== JSON.stringify(sealed.baselines)) return inBatch('baselines')
  const parent = weightLine(state.weights, sealed.policy).versions.get(sealed.parent.version)
  if (!parent || parent.adapter !== sealed.parent.adapter || parent.state !== sealed.parent.state)
    return inBatch(`parent version ${sealed.parent.version}`)
  return null
}

/** As `taskOf`, without turns behind the end, of which the batch may have been sealed before they named the task. */
const taskAtEnd = ({ outcome, turns }: SessionState): string =>
  taskOf({ outcome, turns: turns.filter(({ outcomeBy }) => outcomeBy !== null) })

/** Whether a reward is not that of the score and the outcome that its item names, or the outcome is not on the log. */
const auditReward = (
  state: AuditState,
  { number, settings }: BatchSealed,
  item: BatchSealed['items'][number],
  score: ScoresEvent,
): 'reward' | Difference | null => {
  const turn = state.turns.turns.get(item.turn)
  const turnScore = score.type === 'TurnSkipped' ? null : score.reward
  const outcome = item.closing && turn ? outcomeOf(state, turn) : null
  if (item.closing && (outcome?.closing !== item.closing || outcome.value !== item.outcome))
    return {
      topic: 'turns',
      key: item.session,
      record: item.closing,
      type: 'SessionClosed',
      what: `the outcome of turn ${item.turn} that batch ${number} names is not on the log`,
    }
  if (outcome ? turnScore !== item.turnScore : turnScore === null) return 'reward'
  const reward = combine(turnScore, outcome?.value ?? null, settings.turnScoreWeight ?? 0)
  return reward === item.reward ? null : 'reward'
}

const sameHint = (a: { bytes: Uint8Array } | null, b: { bytes: Uint8Array } | null): boolean =>
  a === null || b === null ? a === b : Buffer.compare(a.bytes, b.bytes) === 0
