/**
 * A replay with changed settings or another judge: seals new batches of the scored turns in log order and computes
 * them.
 */
import { InstarError, updateLine, written, type BatchSealed, type Settings } from '@instar/events'
import type { Parent } from '@instar/engine/port'
import { hasSignal } from '../core/batch.ts'
import {
  branchStarted,
  scoredTurns,
  sealTurns,
  turnsInRange,
  turnsWithNextState,
  type ReplayOptions,
  type ScoredTurn,
} from '../core/replay.ts'
import { changedSettings } from '../core/replay-settings.ts'
import {
  computeBatch,
  NOTHING_TO_TRAIN,
  replayReport,
  reportProgress,
  type ReplayReport,
  type ReplayRun,
  type Rescore,
} from './replay-run.ts'
import { withRehearsal } from './rehearsal.ts'
import { recordedParent } from './verify.ts'

export const replayChanged = async (run: ReplayRun, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const line = updateLine(state.updates, state.policy)
  const last = line.byId.get(line.last)
  if (!last) throw new InstarError('bad_request', NOTHING_TO_TRAIN)
  const changed = changedSettings(last.sealed.settings, options.set, run.from)
  const { loss } = changed
  const settings = withRehearsal(changed.settings)
  const size = settings.batchSize ?? last.sealed.items.length
  const judge = options.judge === null ? null : (ports.rescore?.(options.judge) ?? null)
  if (options.judge !== null && !judge)
    throw new InstarError('bad_request', `--judge ${options.judge}: no judge has this name`, { field: 'judge' })
  const inRange = turnsInRange(state, options.from, options.until)
  if (judge) await rescore(run, judge, options.judge ?? '', inRange)
  const scoredBy = judge ? branch.key : state.policy
  const available = countOf(scoredTurns(state, scoredBy), ({ turn }) => inRange(turn))
  const total = Math.floor(available / size)
  if (total === 0)
    throw new InstarError('bad_request', `${NOTHING_TO_TRAIN}: ${available} scored turns, a batch has ${size}`)
  await branch.append(branchStarted(state, branch.key, run.from, total, ports.now()))
  let parent: Parent = await recordedParent(ports.log, state, state.policy, run.from)
  const turns = scoredTurns(state, scoredBy)
  for (let i = 0; i < total; i += 1) {
    const sealed = sealNext(
      run,
      nextOf(turns, size, ({ turn }) => inRange(turn)),
      loss ?? last.sealed.loss,
      settings,
    )
    if (hasSignal(sealed)) {
      const result = await computeBatch(run, sealed, parent)
      parent = { adapter: result.adapter, state: result.state }
      await branch.record(sealed, result, null)
    } else await branch.recordFailure(sealed, 'no_signal')
    reportProgress(run, 'training', i + 1, total, null)
  }
  return replayReport(run, options, null, total, { first: null, apart: null })
}

/** Judges every turn of the range that has a next state; appends the scores under the key of the branch. */
const rescore = async (
  run: ReplayRun,
  judge: Rescore,
  name: string,
  inRange: (turn: string) => boolean,
): Promise<void> => {
  const { ports, state, branch } = run
  const total = countOf(turnsWithNextState(state), ({ turn }) => inRange(turn))
  let done = 0
  for (const { turn, ...context } of turnsWithNextState(state)) {
    if (!inRange(turn)) continue
    done += 1
    const known = state.turns.turns.get(turn)
    if (!known) continue
    ports.signal.throwIfAborted()
    const judgement = await judge(turn, context)
    const common = {
      turn,
      session: known.session,
      policy: branch.key,
      version: known.version,
      subject: known.subject,
      verdicts: judgement.verdicts,
      cause: context.next,
      rank: null,
      at: ports.now(),
    }
    await branch.append(
      judgement.reward === null
        ? { type: 'TurnSkipped', reason: judgement.reason ?? 'abstained', ...common }
        : {
            type: 'TurnScored',
            reward: judgement.reward,
            judge: judgement.judge ?? name,
            hint: judgement.hint === null ? null : written(judgement.hint),
            hintJudge: judgement.hint === null ? null : (judgement.judge ?? name),
            ...common,
          },
    )
    reportProgress(run, 'judging', done, total, null)
  }
}

const sealNext = (run: ReplayRun, turns: readonly ScoredTurn[], loss: string, settings: Settings): BatchSealed => {
  const { branch, state, ports } = run
  const { prev, number } = branch.next()
  return sealTurns(turns, updateLine(state.updates, branch.key).baselines, {
    prev,
    policy: branch.key,
    number,
    parent: branch.head(),
    seed: number,
    loss,
    settings,
    at: ports.now(),
  })
}

const countOf = <T>(items: Iterable<T>, matches: (item: T) => boolean): number => {
  let count = 0
  for (const item of items) if (matches(item)) count += 1
  return count
}

/** The next matching items: `size`, or as many as there are. */
const nextOf = <T>(items: Iterator<T>, size: number, matches: (item: T) => boolean): T[] => {
  const next: T[] = []
  while (next.length < size) {
    const { done, value } = items.next()
    if (done) break
    if (matches(value)) next.push(value)
  }
  return next
}
