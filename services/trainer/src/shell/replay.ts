/**
 * `instar replay`: retrains from the log onto a branch that never touches the serving head. With unchanged settings
 * the recorded batches are computed again and every adapter must come out bit-equal, where the engine is the recorded
 * one; elsewhere the distance is told (mode `tolerance`). With changed settings turns are sealed anew in log order.
 * Everything is checked before the branch's first record.
 */
import {
  InstarError,
  requireBase,
  updateLine,
  weightLine,
  written,
  type BatchSealed,
  type BatchState,
  type Settings,
  type TurnScored,
} from '@instar/events'
import { createTurnReader, getBlob, type EventLog } from '@instar/log'
import type { LearningEngine, Model, Parent, StepResult } from '@instar/engine/port'
import { adapterDistance } from '@instar/policy'
import type { AuditState } from '../core/audit.ts'
import { hasSignal } from '../core/batch.ts'
import {
  branchKey,
  branchStarted,
  changedSettings,
  joinedTurns,
  recordedBatches,
  scoredTurns,
  sealAnew,
  startVersion,
  turnsBetween,
  type ReplayOptions,
  type ScoredTurn,
} from '../core/replay.ts'
import { Branch, type Recorded } from './branch.ts'
import { stepSettings, trainItem } from './compute.ts'
import { readAudit, type Audit } from './audit.ts'
import { isSameEngine, recordedParent } from './verify.ts'

/**
 * `equal`: so far; null with changed settings, and where the engine is not the recorded one: then `apart` is the
 * largest distance of an adapter from the recorded one (`adapterDistance`), and of which batch. `unreadable`: records
 * that were passed over, as the services do.
 */
export type ReplayProgress = {
  phase: 'judging' | 'training'
  done: number
  total: number
  equal: boolean | null
  elapsedMs: number
  remainingMs: number
}
export type ReplayReport = {
  branch: string
  equal: boolean | null
  mode: 'recompute' | 'tolerance'
  batches: number
  versions: number
  unreadable: number
  first: { batch: number; recorded: string; found: string } | null
  apart: { batch: number; distance: number } | null
  adapter: string | null
  wallMs: number
}
/** A judge's verdict on a turn, given the turn whose request holds its next state. */
type Rescored = {
  reward: number | null
  judge: string | null
  hint: string | null
  reason: string | null
  verdicts: TurnScored['verdicts']
}
/** `shown`: the candidate to which `next` replied, when `turn` was not shown. */
type Rescore = (turn: string, said: { next: string; shown: string | null }) => Promise<Rescored>

export type ReplayPorts = {
  log: EventLog
  learner: LearningEngine
  model: Model
  now: () => number
  signal: AbortSignal
  /** By the name that `--judge` gives; null: there is no such judge. */
  rescore?: (judge: string) => Rescore | null
  onProgress?: (progress: ReplayProgress) => void
}

export const replay = async (ports: ReplayPorts, policy: string, options: ReplayOptions): Promise<ReplayReport> => {
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(options.branch))
    throw new InstarError('bad_request', `--branch ${options.branch}: letters, digits, dots and dashes`, {
      field: 'branch',
    })
  const audit = await readAudit(ports.log, policy, ports.signal)
  try {
    return await replayed(ports, audit, options)
  } finally {
    await audit.close()
  }
}

const replayed = async (
  ports: ReplayPorts,
  { state, broken, unreadable, folded }: Audit,
  options: ReplayOptions,
): Promise<ReplayReport> => {
  const { policy } = state
  if (broken) throw new InstarError('log_gap', broken.what, broken)
  requireBase(weightLine(state.weights, policy), ports.model)
  const key = branchKey(policy, options.branch)
  if (weightLine(state.weights, key).started)
    throw new InstarError('branch_exists', `there is a branch ${options.branch} already`, { branch: options.branch })
  const from = startVersion(state, options.from)
  const run: ReplayRun = {
    ports,
    state,
    branch: new Branch({ log: ports.log, now: ports.now, signal: ports.signal, folded }, state, key, from),
    reader: createTurnReader(ports.log, (turn) => state.turns.turns.get(turn)),
    began: ports.now(),
    from,
    unreadable: unreadable.records,
  }
  const changed = Object.keys(options.set).length > 0 || options.judge !== null
  return changed ? anew(run, options) : again(run, options)
}

type ReplayRun = {
  ports: ReplayPorts
  state: AuditState
  branch: Branch
  reader: ReturnType<typeof createTurnReader>
  began: number
  from: number
  unreadable: number
}

const countOf = <T>(items: Iterable<T>, fits: (item: T) => boolean): number => {
  let count = 0
  for (const item of items) if (fits(item)) count += 1
  return count
}

/** The next so many that fit, or as many as there are. */
const nextOf = <T>(items: Iterator<T>, size: number, fits: (item: T) => boolean): T[] => {
  const next: T[] = []
  while (next.length < size) {
    const { done, value } = items.next()
    if (done) break
    if (fits(value)) next.push(value)
  }
  return next
}

const NOTHING = 'there is nothing to train on in this range'

const again = async (run: ReplayRun, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const mine = ports.learner.fingerprint()
  /** Of each batch its parent, as long as some later one may need what came out of it. */
  const lastUse = new Map<string, number>()
  let total = 0
  let exact = true
  for (const { sealed, update } of recordedBatches(state, options.from, options.until)) {
    lastUse.set(sealed.parent.adapter ?? '', total)
    exact &&= isSameEngine(update.event.fingerprint, mine)
    total += 1
  }
  if (total === 0) throw new InstarError('bad_request', NOTHING)
  await branch.append(branchStarted(state, branch.key, run.from, total, ports.now()))
  /** Recorded adapter → what came out here, for as long as a later batch has it as its parent. */
  const results = new Map<string, Parent>()
  let first: ReplayReport['first'] = null
  let apart: ReplayReport['apart'] = null
  const equal = (): boolean | null => (exact ? first === null : null)
  let i = 0
  for (const { sealed, update } of recordedBatches(state, options.from, options.until)) {
    const recorded = update.event.adapter
    const parent =
      results.get(sealed.parent.adapter ?? '') ??
      (await recordedParent(ports.log, state, state.policy, sealed.parent.version))
    const result = await step(run, sealed, parent)
    if ((lastUse.get(recorded) ?? -1) > i) results.set(recorded, { adapter: result.adapter, state: result.state })
    if (lastUse.get(sealed.parent.adapter ?? '') === i) results.delete(sealed.parent.adapter ?? '')
    if (!exact) {
      const distance = adapterDistance(result.adapter.weights, await getBlob(ports.log, recorded, update.event.blobsAt))
      if (!apart || distance > apart.distance) apart = { batch: sealed.number, distance }
    } else if (result.adapter.sha256 !== recorded)
      first ??= { batch: sealed.number, recorded, found: result.adapter.sha256 }
    await branch.record({ ...sealed, parent: branch.copyOf(sealed.parent) }, result, verdictOf(state, update.id))
    i += 1
    progress(run, 'training', i, total, equal())
  }
  return report(run, options, equal(), total, { first, apart })
}

const anew = async (run: ReplayRun, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const line = updateLine(state.updates, state.policy)
  const last = line.byId.get(line.last)
  if (!last) throw new InstarError('bad_request', NOTHING)
  const { settings, loss } = changedSettings(last.sealed.settings, options.set, run.from)
  const size = settings.batchSize ?? last.sealed.items.length
  const judge = options.judge === null ? null : (ports.rescore?.(options.judge) ?? null)
  if (options.judge !== null && !judge)
    throw new InstarError('bad_request', `--judge ${options.judge}: there is no such judge here`, { field: 'judge' })
  const within = turnsBetween(state, options.from, options.until)
  if (judge) await rescore(run, judge, options.judge ?? '', within)
  const scoredBy = judge ? branch.key : state.policy
  const chosen = countOf(scoredTurns(state, scoredBy), ({ turn }) => within(turn))
  const total = Math.floor(chosen / size)
  if (total === 0) throw new InstarError('bad_request', `${NOTHING}: ${chosen} scored turns, a batch takes ${size}`)
  await branch.append(branchStarted(state, branch.key, run.from, total, ports.now()))
  let parent: Parent = await recordedParent(ports.log, state, state.policy, run.from)
  const turns = scoredTurns(state, scoredBy)
  for (let i = 0; i < total; i += 1) {
    const sealed = sealNext(
      run,
      nextOf(turns, size, ({ turn }) => within(turn)),
      loss ?? last.sealed.loss,
      settings,
    )
    if (hasSignal(sealed)) {
      const result = await step(run, sealed, parent)
      parent = { adapter: result.adapter, state: result.state }
      await branch.record(sealed, result, null)
    } else await branch.recordFailure(sealed, 'no_signal')
    progress(run, 'training', i + 1, total, null)
  }
  return report(run, options, null, total, { first: null, apart: null })
}

/** Every joined turn of the range judged again; the scores are on the log under the branch's own key. */
const rescore = async (
  run: ReplayRun,
  judge: Rescore,
  name: string,
  within: (turn: string) => boolean,
): Promise<void> => {
  const { ports, state, branch } = run
  const total = countOf(joinedTurns(state), ({ turn }) => within(turn))
  let done = 0
  for (const { turn, ...told } of joinedTurns(state)) {
    if (!within(turn)) continue
    done += 1
    const known = state.turns.turns.get(turn)
    if (!known) continue
    ports.signal.throwIfAborted()
    const said = await judge(turn, told)
    const facts = {
      turn,
      session: known.session,
      policy: branch.key,
      version: known.version,
      subject: known.subject,
      verdicts: said.verdicts,
      cause: told.next,
      rank: null,
      at: ports.now(),
    }
    await branch.append(
      said.reward === null
        ? { type: 'TurnSkipped', reason: said.reason ?? 'abstained', ...facts }
        : {
            type: 'TurnScored',
            reward: said.reward,
            judge: said.judge ?? name,
            hint: said.hint === null ? null : written(said.hint),
            hintJudge: said.hint === null ? null : (said.judge ?? name),
            ...facts,
          },
    )
    progress(run, 'judging', done, total, null)
  }
}

const sealNext = (run: ReplayRun, turns: readonly ScoredTurn[], loss: string, settings: Settings): BatchSealed => {
  const { branch, state, ports } = run
  const { prev, number } = branch.next()
  return sealAnew(turns, updateLine(state.updates, branch.key).baselines, {
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

const step = async (run: ReplayRun, sealed: BatchSealed, parent: Parent): Promise<StepResult> => {
  run.ports.signal.throwIfAborted()
  const items = await Promise.all(
    sealed.items.map((item) => trainItem({ reader: run.reader, model: run.ports.model }, item, sealed.loss)),
  )
  return run.ports.learner.step(items, stepSettings(sealed), parent)
}

const verdictOf = (state: AuditState, update: BatchState['id']): Recorded => {
  const line = weightLine(state.weights, state.policy)
  const verdict = line.verdicts.get(update)
  if (verdict?.accepted)
    return {
      version: verdict.version,
      reason: '',
      figures: line.versions.get(verdict.version)?.published?.figures ?? {},
    }
  const rejected = state.rejected.get(update)
  return { version: null, reason: rejected?.reason ?? 'no_verdict', figures: rejected?.figures ?? {} }
}

const progress = (
  { ports, began }: ReplayRun,
  phase: ReplayProgress['phase'],
  done: number,
  total: number,
  equal: boolean | null,
): void => {
  const elapsedMs = ports.now() - began
  ports.onProgress?.({
    phase,
    done,
    total,
    equal,
    elapsedMs,
    remainingMs: done > 0 ? (elapsedMs / done) * (total - done) : 0,
  })
}

const report = (
  { ports, state, branch, began, unreadable }: ReplayRun,
  options: ReplayOptions,
  equal: boolean | null,
  batches: number,
  { first, apart }: Pick<ReplayReport, 'first' | 'apart'>,
): ReplayReport => ({
  branch: options.branch,
  equal,
  mode: apart ? 'tolerance' : 'recompute',
  batches,
  versions: weightLine(state.weights, branch.key).last,
  unreadable,
  first,
  apart,
  adapter: branch.head().adapter,
  wallMs: ports.now() - began,
})
