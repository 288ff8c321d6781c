/** What a replay does again, and the records of its branch. A branch is a policy with a key of its own. */
import { InstarError, updateLine, weightLine, type BatchSealed, type BatchState, type LineStarted, type Settings } from '@instar/events'
import { advantages, type Baselines } from './baseline.ts'
import type { AuditState } from './audit.ts'

/** Bounds are versions (from: exclusive of its own batch, until: inclusive) or times in ms. */
export type Bound = { version: number } | { time: number } | null
export type ReplayOptions = { branch: string; from: Bound; until: Bound; set: Record<string, string>; judge: string | null }

export const branchKey = (policy: string, branch: string): string => `${policy}~${branch}`

/** The version from which the replay starts: its adapter and optimizer are restored from the log. */
export const startVersion = (state: AuditState, from: Bound): number => {
  const line = weightLine(state.weights, state.policy)
  if (from === null) return 0
  if ('version' in from) {
    if (!line.versions.has(from.version)) throw new InstarError('unknown_version', `${state.policy} has no version ${from.version}`, { version: from.version })
    return from.version
  }
  return Math.max(0, ...[...line.versions.values()].filter((v) => v.at <= from.time).map((v) => v.version))
}

/** Recorded batches with an update, in order, behind `from` and up to `until`. */
export const recordedBatches = (state: AuditState, from: Bound, until: Bound): BatchState[] => {
  const line = weightLine(state.weights, state.policy)
  const sealedAt = (bound: Bound, otherwise: number): number => {
    if (bound === null) return otherwise
    if ('time' in bound) return bound.time
    const version = line.versions.get(bound.version)
    if (!version) throw new InstarError('unknown_version', `${state.policy} has no version ${bound.version}`, { version: bound.version })
    return updateLine(state.updates, state.policy).batches.find((b) => b.update?.id === version.update)?.sealed.at ?? otherwise
  }
  const after = from === null || ('version' in from && from.version === 0) ? -1 : sealedAt(from, -1)
  const upTo = sealedAt(until, Number.MAX_SAFE_INTEGER)
  return updateLine(state.updates, state.policy).batches.filter((b) => b.update !== null && b.sealed.at > after && b.sealed.at <= upTo)
}

export const branchStarted = (state: AuditState, key: string, from: number, settings: Settings, now: number): LineStarted => {
  const line = weightLine(state.weights, state.policy)
  const version = line.versions.get(from)
  if (!line.started || !version) throw new InstarError('unknown_version', `${state.policy} has no version ${from}`, { version: from })
  return { type: 'LineStarted', prev: '', policy: key, mode: 'replay', base: line.started.base, parent: { policy: state.policy, version: from, adapter: version.adapter, state: version.state }, settings, at: now }
}

/** `--set` by the names of the recorded settings; `lr` is short for learningRate, `loss` and `batchSize` as they are. */
export const changedSettings = (recorded: Settings, set: Record<string, string>): { settings: Settings; loss: string | null } => {
  const settings = { ...recorded }
  let loss: string | null = null
  for (const [name, value] of Object.entries(set)) {
    if (name === 'loss') {
      if (!['hybrid', 'binary', 'opd'].includes(value)) throw new InstarError('bad_request', `--set loss=${value}: loss is hybrid, binary or opd`, { field: 'loss' })
      loss = value
      continue
    }
    const key = name === 'lr' ? 'learningRate' : name
    const number = Number(value)
    if (!(key in recorded)) throw new InstarError('bad_request', `--set ${name}: the settings are ${Object.keys(recorded).sort().join(', ')}, loss`, { field: name })
    if (value.trim() === '' || !Number.isFinite(number)) throw new InstarError('bad_request', `--set ${name}=${value}: not a number`, { field: name })
    settings[key] = number
  }
  return { settings, loss }
}

export type ScoredTurn = { turn: string; record: string; session: string; group: string; score: string; subject: string; version: number; reward: number; hint: BatchSealed['items'][number]['hint'] }

/** Turns that a judge may score again: usable, with a next state, in log order. */
export const joinedTurns = (state: AuditState): { turn: string; next: string }[] =>
  [...state.turns.turns.values()].flatMap((turn) => (turn.next !== null && turn.kind === 'main' && turn.status === 'complete' && turn.trainable && turn.policy === state.policy ? [{ turn: turn.turn, next: turn.next }] : []))

/** Scored, usable turns in log order: what a replay with changed settings seals anew. */
export const scoredTurns = (state: AuditState, scores = state.scores): ScoredTurn[] =>
  [...scores.turns.values()].flatMap((score) => {
    const turn = state.turns.turns.get(score.turn)
    if (!turn || score.reward === null || turn.policy !== state.policy || turn.status !== 'complete' || !turn.trainable) return []
    return [{ turn: score.turn, record: turn.record, session: score.session, group: turn.group, score: score.score, subject: score.subject, version: score.version, reward: score.reward, hint: score.hint }]
  })

export const sealAnew = (turns: readonly ScoredTurn[], before: Baselines, batch: Pick<BatchSealed, 'prev' | 'policy' | 'number' | 'parent' | 'seed' | 'loss' | 'settings' | 'at'>): BatchSealed => {
  const { items, after } = advantages(turns, before)
  return {
    type: 'BatchSealed', ...batch, dropped: [], baselines: after,
    items: turns.map(({ group: _, ...turn }, i) => ({ ...turn, baseline: items[i]?.baseline ?? 0, advantage: items[i]?.advantage ?? 0 })),
  }
}
