/**
 * A replay with unchanged settings: computes the recorded batches again and compares the adapters with the recorded
 * ones.
 */
import { InstarError, weightLine, type BatchState } from '@instar/events'
import { getBlob } from '@instar/log'
import type { Parent } from '@instar/engine/port'
import { adapterDistance } from '@instar/policy'
import type { AuditState } from '../core/audit-state.ts'
import { branchStarted, recordedBatches, type ReplayOptions } from '../core/replay.ts'
import type { RecordedVerdict } from './branch.ts'
import {
  computeBatch,
  NOTHING_TO_TRAIN,
  replayReport,
  reportProgress,
  type ReplayReport,
  type ReplayRun,
} from './replay-run.ts'
import { isSameEngine } from '../core/modes.ts'
import { recordedParent } from './verify.ts'

export const replayRecorded = async (run: ReplayRun, options: ReplayOptions): Promise<ReplayReport> => {
  const { ports, state, branch } = run
  const fingerprint = ports.learner.fingerprint()
  /** By recorded adapter: the index of the last batch that has it as its parent. */
  const lastUse = new Map<string, number>()
  let total = 0
  let exact = true
  for (const { sealed, update } of recordedBatches(state, options.from, options.until)) {
    lastUse.set(sealed.parent.adapter ?? '', total)
    exact &&= isSameEngine(update.event.fingerprint, fingerprint)
    total += 1
  }
  if (total === 0) throw new InstarError('bad_request', NOTHING_TO_TRAIN)
  await branch.append(branchStarted(state, branch.key, run.from, total, ports.now()))
  /** By recorded adapter: the result computed here, until its last use as a parent. */
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
    const result = await computeBatch(run, sealed, parent)
    if ((lastUse.get(recorded) ?? -1) > i) results.set(recorded, { adapter: result.adapter, state: result.state })
    if (lastUse.get(sealed.parent.adapter ?? '') === i) results.delete(sealed.parent.adapter ?? '')
    if (!exact) {
      const distance = adapterDistance(result.adapter.weights, await getBlob(ports.log, recorded, update.event.blobsAt))
      if (!apart || distance > apart.distance) apart = { batch: sealed.number, distance }
    } else if (result.adapter.sha256 !== recorded)
      first ??= { batch: sealed.number, recorded, found: result.adapter.sha256 }
    await branch.record({ ...sealed, parent: branch.copyOf(sealed.parent) }, result, verdictOf(state, update.id))
    i += 1
    reportProgress(run, 'training', i, total, equal())
  }
  return replayReport(run, options, equal(), total, { first, apart })
}

const verdictOf = (state: AuditState, update: BatchState['id']): RecordedVerdict => {
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
