/**
 * `instar replay`: retrains from the log onto a branch that never touches the serving head. With unchanged
 * settings the recorded batches are computed again and every adapter must come out bit-equal; with changed
 * ones turns are sealed anew in log order.
 */
import { decodeRecord, encodeEvent, initialScores, InstarError, nextVersion, updateLine, weightLine, type BatchSealed, type BatchState, type Event, type ScoresState, type Settings, type TurnScored, type UpdateComputed, written } from '@instar/events'
import { createTurnReader, persist, putBlob, type EventLog } from '@instar/log'
import { type LearningEngine, type Model, type Parent, type StepResult } from '@instar/policy'
import { evolveAudit, type AuditState } from '../core/audit.ts'
import { hasSignal } from '../core/batch.ts'
import { branchKey, branchStarted, changedSettings, joinedTurns, recordedBatches, scoredTurns, sealAnew, startVersion, type ReplayOptions } from '../core/replay.ts'
import { stepSettings, trainItem } from './compute.ts'
import { readAudit, recordedParent } from './verify.ts'

export type ReplayProgress = { done: number; total: number; batch: number; equal: boolean | null; elapsedMs: number; remainingMs: number }
export type ReplayReport = { branch: string; equal: boolean | null; mode: 'recompute'; batches: number; versions: number; first: { batch: number; recorded: string; found: string } | null; adapter: string | null; wallMs: number }
/** What a judge says of a turn, given the turn whose request holds its next state. */
export type Rescored = { reward: number | null; judge: string | null; hint: string | null; reason: string | null; verdicts: TurnScored['verdicts'] }

export type ReplayPorts = { /** By the name that `--judge` gives; null: there is no such judge. */ rescore?: (judge: string) => ((turn: string, next: string) => Promise<Rescored>) | null; log: EventLog; learner: LearningEngine; model: Model; now: () => number; signal: AbortSignal; onProgress?: (progress: ReplayProgress) => void }

export const replay = async (ports: ReplayPorts, policy: string, options: ReplayOptions): Promise<ReplayReport> => {
  const { state, broken } = await readAudit(ports.log, policy)
  if (broken) throw new InstarError('log_gap', broken.what, broken)
  const key = branchKey(policy, options.branch)
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(options.branch)) throw new InstarError('bad_request', `--branch ${options.branch}: letters, digits, dots and dashes`, { field: 'branch' })
  if (weightLine(state.weights, key).started) throw new InstarError('branch_exists', `there is a branch ${options.branch} already`, { branch: options.branch })
  const run = new BranchRun(ports, state, key)
  const from = startVersion(state, options.from)
  await run.append(branchStarted(state, key, from, {}, ports.now()))
  const changed = Object.keys(options.set).length > 0 || options.judge !== null
  return changed ? run.anew(options, from) : run.again(options, from)
}

/** What the gate said of the batch on main; `version` null: it was rejected. */
type Recorded = { version: number | null; reason: string; figures: Record<string, number> }

class BranchRun {
  private readonly ports: ReplayPorts
  private readonly state: AuditState
  private readonly key: string
  private readonly started: number
  /** Main's version → this branch's. */
  private readonly copies = new Map<number, number>()
  private readonly reader: ReturnType<typeof createTurnReader>

  constructor(ports: ReplayPorts, state: AuditState, key: string) {
    this.ports = ports
    this.state = state
    this.key = key
    this.started = ports.now()
    this.reader = createTurnReader(ports.log, (turn) => state.turns.turns.get(turn))
  }

  /** Appends and folds: this run is the only writer of its branch, and a lost race shows as a stale record. */
  async append(event: Event): Promise<string> {
    const record = encodeEvent(event)
    await persist(this.ports.log, [record], this.ports.signal)
    evolveAudit(this.state, decodeRecord({ ...record, partition: 0, offset: 0 }))
    return record.id
  }

  async again(options: ReplayOptions, from: number): Promise<ReplayReport> {
    const batches = recordedBatches(this.state, options.from, options.until)
    const results = new Map<string, Parent>()
    this.copies.set(from, 0)
    let first: ReplayReport['first'] = null
    for (const [i, batch] of batches.entries()) {
      const recorded = batch.update?.event as UpdateComputed
      const parent = results.get(batch.sealed.parent.adapter ?? '') ?? (await recordedParent(this.ports.log, this.state, this.state.policy, batch.sealed.parent.version))
      const result = await this.step({ ...batch.sealed }, parent)
      results.set(recorded.adapter, { adapter: result.adapter, state: result.state })
      if (result.adapter.sha256 !== recorded.adapter && !first) first = { batch: batch.sealed.number, recorded: recorded.adapter, found: result.adapter.sha256 }
      const verdict = this.verdictOf(batch)
      const version = await this.record({ ...batch.sealed, parent: this.copyOf(batch.sealed.parent) }, result, verdict)
      if (verdict.version !== null && version !== null) this.copies.set(verdict.version, version)
      this.progress(i + 1, batches.length, batch.sealed.number, first === null)
    }
    return this.report(options, first === null, batches.length, first)
  }

  async anew(options: ReplayOptions, from: number): Promise<ReplayReport> {
    const last = updateLine(this.state.updates, this.state.policy).batches.at(-1)
    if (!last) throw new InstarError('bad_request', 'there is no batch on the log yet: nothing to train again')
    const { settings, loss } = changedSettings(last.sealed.settings, options.set)
    const chosen = this.range(options, from, options.judge === null ? this.state.scores : await this.rescore(options.judge))
    const size = settings.batchSize ?? last.sealed.items.length
    const total = Math.floor(chosen.length / size)
    let parent: Parent = await recordedParent(this.ports.log, this.state, this.state.policy, from)
    for (let i = 0; i < total; i += 1) {
      const sealed = this.sealNext(chosen.slice(i * size, (i + 1) * size), loss ?? last.sealed.loss, settings)
      if (!hasSignal(sealed)) continue
      const result = await this.step(sealed, parent)
      parent = { adapter: result.adapter, state: result.state }
      await this.record(sealed, result, null)
      this.progress(i + 1, total, i + 1, null)
    }
    return this.report(options, null, total, null)
  }

  private range(options: ReplayOptions, from: number, scores: ScoresState): ReturnType<typeof scoredTurns> {
    const earlier = new Set(from === 0 ? [] : updateLine(this.state.updates, this.state.policy).batches.filter((b) => !recordedBatches(this.state, options.from, null).includes(b)).flatMap((b) => b.sealed.items.map((item) => item.turn)))
    const later = new Set(options.until === null ? [] : recordedBatches(this.state, options.until, null).flatMap((b) => b.sealed.items.map((item) => item.turn)))
    return scoredTurns(this.state, scores).filter((turn) => !earlier.has(turn.turn) && !later.has(turn.turn))
  }

  /** Every joined turn judged again; the scores are on the log under the branch's own key. */
  private async rescore(name: string): Promise<ScoresState> {
    const judge = this.ports.rescore?.(name)
    if (!judge) throw new InstarError('bad_request', `--judge ${name}: there is no such judge`, { field: 'judge' })
    for (const { turn, next } of joinedTurns(this.state)) {
      const known = this.state.turns.turns.get(turn)
      if (!known) continue
      const said = await judge(turn, next)
      const facts = { turn, session: known.session, policy: this.key, version: known.version, subject: known.subject, verdicts: said.verdicts, cause: next, rank: null, at: this.ports.now() }
      await this.append(said.reward === null
        ? { type: 'TurnSkipped', reason: said.reason ?? 'abstained', ...facts }
        : { type: 'TurnScored', reward: said.reward, judge: said.judge ?? name, hint: said.hint === null ? null : written(said.hint), hintJudge: said.hint === null ? null : (said.judge ?? name), ...facts })
    }
    return this.state.others.get(this.key) ?? initialScores()
  }

  private sealNext(turns: ReturnType<typeof scoredTurns>, loss: string, settings: Settings): BatchSealed {
    const line = updateLine(this.state.updates, this.key)
    const number = line.batches.length + 1
    return sealAnew(turns, line.baselines, { prev: line.chain.tip, policy: this.key, number, parent: this.head(), seed: number, loss, settings, at: this.ports.now() })
  }

  private head(): BatchSealed['parent'] {
    const line = weightLine(this.state.weights, this.key)
    const head = line.versions.get(line.head)
    return { version: head?.version ?? 0, adapter: head?.adapter ?? null, state: head?.state ?? null }
  }

  private async step(sealed: BatchSealed, parent: Parent): Promise<StepResult> {
    const items = await Promise.all(sealed.items.map((item) => trainItem({ reader: this.reader, model: this.ports.model }, item, sealed.loss)))
    return this.ports.learner.step(items, stepSettings(sealed), parent)
  }

  /** Batch, update and verdict on the branch's own chains; its version there. `verdict` null: accepted, no gate was asked. */
  private async record(sealed: BatchSealed, result: StepResult, verdict: Recorded | null): Promise<number | null> {
    const updates = updateLine(this.state.updates, this.key)
    const number = updates.batches.length + 1
    const batch = await this.append({ ...sealed, policy: this.key, prev: updates.chain.tip, number })
    const at = this.ports.now()
    await putBlob(this.ports.log, result.state, at)
    await putBlob(this.ports.log, result.adapter.weights, at)
    const update = await this.append({
      type: 'UpdateComputed', prev: updates.chain.tip, policy: this.key, batch, number, adapter: result.adapter.sha256, adapterBytes: result.adapter.weights.length,
      state: result.stateSha256, stateBytes: result.state.length, blobsAt: at, fingerprint: result.fingerprint, figures: { ...result.figures }, startedAt: at, at: this.ports.now(),
    })
    const line = weightLine(this.state.weights, this.key)
    const common = { prev: line.chain.tip, policy: this.key, update, adapter: result.adapter.sha256, parent: sealed.parent.version, at: this.ports.now() }
    if (verdict && verdict.version === null) {
      await this.append({ type: 'VersionRejected', ...common, reason: verdict.reason, figures: verdict.figures, evidence: [] })
      return null
    }
    const version = nextVersion(line)
    await this.append({ type: 'VersionPublished', ...common, number: version, adapterBytes: result.adapter.weights.length, state: result.stateSha256, blobsAt: at, why: 'update', source: null, figures: verdict?.figures ?? {} })
    return version
  }

  /** What main trained from, as this branch has it: a rollback there is a fork here. */
  private copyOf(parent: BatchSealed['parent']): BatchSealed['parent'] {
    const copy = weightLine(this.state.weights, this.key).versions.get(this.copies.get(parent.version) ?? -1)
    return copy ? { version: copy.version, adapter: copy.adapter, state: copy.state } : { ...parent, version: 0 }
  }

  private verdictOf(batch: BatchState): Recorded {
    const line = weightLine(this.state.weights, this.state.policy)
    const verdict = line.verdicts.get(batch.update?.id ?? '')
    if (verdict?.accepted) return { version: verdict.version, reason: '', figures: line.versions.get(verdict.version)?.published?.figures ?? {} }
    const rejected = line.rejected.find((r) => r.event.update === batch.update?.id)
    return { version: null, reason: rejected?.event.reason ?? 'no_verdict', figures: rejected?.event.figures ?? {} }
  }

  private progress(done: number, total: number, batch: number, equal: boolean | null): void {
    const elapsedMs = this.ports.now() - this.started
    this.ports.onProgress?.({ done, total, batch, equal, elapsedMs, remainingMs: done > 0 ? (elapsedMs / done) * (total - done) : 0 })
  }

  private report(options: ReplayOptions, equal: boolean | null, batches: number, first: ReplayReport['first']): ReplayReport {
    const line = weightLine(this.state.weights, this.key)
    return { branch: options.branch, equal, mode: 'recompute', batches, versions: line.versions.size - 1, first, adapter: line.versions.get(line.head)?.adapter ?? null, wallMs: this.ports.now() - this.started }
  }
}
