/**
 * `instar replay`: retrains from the log onto a branch that never touches the serving head. With unchanged
 * settings the recorded batches are computed again and every adapter must come out bit-equal, where the engine is
 * the recorded one; elsewhere the distance is told (mode `tolerance`). With changed settings turns are sealed anew in log order. Everything is checked before the branch's first record.
 */
import { initialScores, InstarError, requireBase, updateLine, weightLine, written, type BatchSealed, type BatchState, type MemoryScores, type Settings, type TurnScored } from '@instar/events'
import { createTurnReader, getBlob, type EventLog } from '@instar/log'
import { adapterDistance, type LearningEngine, type Model, type Parent, type StepResult } from '@instar/policy'
import type { AuditState } from '../core/audit.ts'
import { hasSignal } from '../core/batch.ts'
import { branchKey, branchStarted, changedSettings, joinedTurns, recordedBatches, scoredTurns, sealAnew, startVersion, turnsBetween, type ReplayOptions } from '../core/replay.ts'
import { Branch, type Recorded } from './branch.ts'
import { stepSettings, trainItem } from './compute.ts'
import { isSameEngine, readAudit, recordedParent } from './verify.ts'

/**
 * `equal`: so far; null with changed settings, and where the engine is not the recorded one: then `apart` is the
 * largest distance of an adapter from the recorded one (`adapterDistance`), and of which batch.
 */
export type ReplayProgress = { phase: 'judging' | 'training'; done: number; total: number; equal: boolean | null; elapsedMs: number; remainingMs: number }
export type ReplayReport = { branch: string; equal: boolean | null; mode: 'recompute' | 'tolerance'; batches: number; versions: number; first: { batch: number; recorded: string; found: string } | null; apart: { batch: number; distance: number } | null; adapter: string | null; wallMs: number }
/** What a judge says of a turn, given the turn whose request holds its next state. */
export type Rescored = { reward: number | null; judge: string | null; hint: string | null; reason: string | null; verdicts: TurnScored['verdicts'] }
/** `shown`: what `next` was said to, where `turn` was shown to nobody. */
export type Rescore = (turn: string, said: { next: string; shown: string | null }) => Promise<Rescored>

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
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(options.branch)) throw new InstarError('bad_request', `--branch ${options.branch}: letters, digits, dots and dashes`, { field: 'branch' })
  const { state, broken } = await readAudit(ports.log, policy)
  if (broken) throw new InstarError('log_gap', broken.what, broken)
  requireBase(weightLine(state.weights, policy), ports.model)
  const key = branchKey(policy, options.branch)
  if (weightLine(state.weights, key).started) throw new InstarError('branch_exists', `there is a branch ${options.branch} already`, { branch: options.branch })
  const from = startVersion(state, options.from)
  const run: Run = { ports, state, branch: new Branch(ports, state, key, from), reader: createTurnReader(ports.log, (turn) => state.turns.turns.get(turn)), began: ports.now(), from }
  const changed = Object.keys(options.set).length > 0 || options.judge !== null
  return changed ? anew(run, options) : again(run, options)
}

type Run = { ports: ReplayPorts; state: AuditState; branch: Branch; reader: ReturnType<typeof createTurnReader>; began: number; from: number }

const NOTHING = 'there is nothing to train on in this range'

const again = async (run: Run, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const batches = recordedBatches(state, options.from, options.until)
  if (batches.length === 0) throw new InstarError('bad_request', NOTHING)
  await branch.append(branchStarted(state, branch.key, run.from, batches.length, ports.now()))
  /** Recorded adapter → what came out here, for as long as a later batch has it as its parent. */
  const results = new Map<string, Parent>()
  const lastUse = new Map(batches.map(({ sealed }, i) => [sealed.parent.adapter ?? '', i]))
  let first: ReplayReport['first'] = null
  let apart: ReplayReport['apart'] = null
  const exact = batches.every(({ update }) => !update || isSameEngine(update.event.fingerprint, ports.learner.fingerprint()))
  const equal = (): boolean | null => (exact ? first === null : null)
  for (const [i, { sealed, update }] of batches.entries()) {
    const recorded = update?.event.adapter ?? ''
    const parent = results.get(sealed.parent.adapter ?? '') ?? (await recordedParent(ports.log, state, state.policy, sealed.parent.version))
    const result = await step(run, sealed, parent)
    if ((lastUse.get(recorded) ?? -1) > i) results.set(recorded, { adapter: result.adapter, state: result.state })
    if (lastUse.get(sealed.parent.adapter ?? '') === i) results.delete(sealed.parent.adapter ?? '')
    if (!exact && update) {
      const distance = adapterDistance(result.adapter.weights, await getBlob(ports.log, recorded, update.event.blobsAt))
      if (!apart || distance > apart.distance) apart = { batch: sealed.number, distance }
    } else if (result.adapter.sha256 !== recorded) first ??= { batch: sealed.number, recorded, found: result.adapter.sha256 }
    await branch.record({ ...sealed, parent: branch.copyOf(sealed.parent) }, result, verdictOf(state, update?.id ?? ''))
    progress(run, 'training', i + 1, batches.length, equal())
  }
  return report(run, options, equal(), batches.length, { first, apart })
}

const anew = async (run: Run, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const last = updateLine(state.updates, state.policy).batches.at(-1)
  if (!last) throw new InstarError('bad_request', NOTHING)
  const { settings, loss } = changedSettings(last.sealed.settings, options.set, run.from)
  const size = settings.batchSize ?? last.sealed.items.length
  const judge = options.judge === null ? null : (ports.rescore?.(options.judge) ?? null)
  if (options.judge !== null && !judge) throw new InstarError('bad_request', `--judge ${options.judge}: there is no such judge here`, { field: 'judge' })
  const within = turnsBetween(state, options.from, options.until)
  const scores = judge ? await rescore(run, judge, options.judge ?? '', within) : state.scores
  const chosen = scoredTurns(state, scores).filter(({ turn }) => within(turn))
  const total = Math.floor(chosen.length / size)
  if (total === 0) throw new InstarError('bad_request', `${NOTHING}: ${chosen.length} scored turns, a batch takes ${size}`)
  await branch.append(branchStarted(state, branch.key, run.from, total, ports.now()))
  let parent: Parent = await recordedParent(ports.log, state, state.policy, run.from)
  for (let i = 0; i < total; i += 1) {
    const sealed = sealNext(run, chosen.slice(i * size, (i + 1) * size), loss ?? last.sealed.loss, settings)
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
const rescore = async (run: Run, judge: Rescore, name: string, within: (turn: string) => boolean): Promise<MemoryScores> => {
  const { ports, state, branch } = run
  const turns = joinedTurns(state).filter(({ turn }) => within(turn))
  for (const [i, { turn, ...told }] of turns.entries()) {
    const known = state.turns.turns.get(turn)
    if (!known) continue
    ports.signal.throwIfAborted()
    const said = await judge(turn, told)
    const facts = { turn, session: known.session, policy: branch.key, version: known.version, subject: known.subject, verdicts: said.verdicts, cause: told.next, rank: null, at: ports.now() }
    await branch.append(said.reward === null
      ? { type: 'TurnSkipped', reason: said.reason ?? 'abstained', ...facts }
      : { type: 'TurnScored', reward: said.reward, judge: said.judge ?? name, hint: said.hint === null ? null : written(said.hint), hintJudge: said.hint === null ? null : (said.judge ?? name), ...facts })
    progress(run, 'judging', i + 1, turns.length, null)
  }
  return state.others.get(branch.key) ?? initialScores()
}

const sealNext = (run: Run, turns: ReturnType<typeof scoredTurns>, loss: string, settings: Settings): BatchSealed => {
  const { branch, state, ports } = run
  const { prev, number } = branch.next()
  return sealAnew(turns, updateLine(state.updates, branch.key).baselines, { prev, policy: branch.key, number, parent: branch.head(), seed: number, loss, settings, at: ports.now() })
}

const step = async (run: Run, sealed: BatchSealed, parent: Parent): Promise<StepResult> => {
  run.ports.signal.throwIfAborted()
  const items = await Promise.all(sealed.items.map((item) => trainItem({ reader: run.reader, model: run.ports.model }, item, sealed.loss)))
  return run.ports.learner.step(items, stepSettings(sealed), parent)
}

const verdictOf = (state: AuditState, update: BatchState['id']): Recorded => {
  const line = weightLine(state.weights, state.policy)
  const verdict = line.verdicts.get(update)
  if (verdict?.accepted) return { version: verdict.version, reason: '', figures: line.versions.get(verdict.version)?.published?.figures ?? {} }
  const rejected = line.rejected.find((r) => r.event.update === update)
  return { version: null, reason: rejected?.event.reason ?? 'no_verdict', figures: rejected?.event.figures ?? {} }
}

const progress = ({ ports, began }: Run, phase: ReplayProgress['phase'], done: number, total: number, equal: boolean | null): void => {
  const elapsedMs = ports.now() - began
  ports.onProgress?.({ phase, done, total, equal, elapsedMs, remainingMs: done > 0 ? (elapsedMs / done) * (total - done) : 0 })
}

const report = ({ ports, state, branch, began }: Run, options: ReplayOptions, equal: boolean | null, batches: number, { first, apart }: Pick<ReplayReport, 'first' | 'apart'>): ReplayReport => ({
  branch: options.branch, equal, mode: apart ? 'tolerance' : 'recompute', batches, versions: weightLine(state.weights, branch.key).versions.size - 1, first, apart,
  adapter: branch.head().adapter, wallMs: ports.now() - began,
})
