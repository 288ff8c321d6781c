/** `instar verify`: checks from the log alone that every version is the one its records describe. */
import { InstarError, requireBase, weightLine, type BatchState } from '@instar/events'
import { createTurnReader, getBlob, type CopyProgress, type EventLog } from '@instar/log'
import type { LearningEngine, Model, Parent } from '@instar/engine/port'
import { adapterFromWeights, tensorsDigest } from '@instar/policy'
import { auditBatch, type Difference } from '../core/audit.ts'
import type { AuditState } from '../core/audit-state.ts'
import { isSameEngine, provenBy, type Mode } from '../core/modes.ts'
import { readAudit, throwIfAborted, type Audit, type AuditStart, type Trusted, type Unreadable } from './audit.ts'
import { batchesToVerify, unmatchedVersion } from './batches-to-verify.ts'
import { baseAdapter, optimizerState } from './compute.ts'
import type { TrainingServer } from '@instar/tinker/port'
import { verifyRemote } from './remote/verify-remote.ts'
import { otherItems, stepBatch } from './step-items.ts'

type VerifyPorts = {
  log: EventLog
  learner: LearningEngine | null
  model: Model
  /** Computes the updates of a training server again; absent: they are not computed. */
  server?: TrainingServer
  onProgress?: (done: number, total: number) => void
  /** The checkpoint from which the log is read; absent: from its start. */
  start?: AuditStart
  /** Of reading the log, before the batches. */
  onRead?: (progress: CopyProgress) => void
  /** Stops the command with `aborted` between two reads of the log or two batches. */
  signal?: AbortSignal
}

/**
 * `mode`: as in core/modes.ts; `digests` if the engine has another fingerprint than the recorded one, or there is none.
 * `found`: the digest that was computed or read.
 */
type BatchReport = {
  batch: number
  version: number | null
  mode: Exclude<Mode, 'tolerance'>
  ok: boolean
  adapter: string | null
  found: string | null
  difference: Difference | null
  /** Mode `server`: distance of the adapter that was computed again, as a part of the update's change. */
  distance?: number
}
/**
 * `unreadable`: malformed records, which every service skips. If a batch or chain needs one, that is its difference.
 */
export type VerifyReport = {
  ok: boolean
  policy: string
  batches: BatchReport[]
  /** What the modes of these batches prove, by mode. */
  proves: Partial<Record<Mode, string>>
  first: Difference | null
  /** Behind the checkpoint, if there is one. */
  unreadable: Unreadable
  /** What was taken from a checkpoint and not looked at; null: everything was. */
  trusted: Trusted | null
}

/**
 * `version` null: all batches of the policy, including rejected ones. With a checkpoint: the batches of which a
 * record is behind it, and a version before it is refused with `bad_request`. Throws `unknown_version`,
 * `no_checkpoint` and `aborted`, and `other_base` where something is computed and the model is another one than the line's.
 */
export const verify = async (ports: VerifyPorts, policy: string, version: number | null): Promise<VerifyReport> => {
  const { signal, onRead: onProgress, start } = ports
  const audit = await readAudit(ports.log, policy, { signal, onProgress, start })
  try {
    return await verifyAll(ports, audit, version)
  } finally {
    await audit.close()
  }
}

const verifyAll = async (ports: VerifyPorts, audit: Audit, version: number | null): Promise<VerifyReport> => {
  const { state, trusted, broken, unreadable } = audit
  const { policy } = state
  const line = weightLine(state.weights, policy)
  // Another model would give other prompts, and other weights than the recorded ones.
  if (ports.learner || ports.server) requireBase(line, ports.model)
  if (!broken && version !== null && !line.versions.has(version))
    throw new InstarError('unknown_version', `${policy} has no version ${version}`, { version })
  if (trusted && version !== null && version <= trusted.versions)
    throw new InstarError('bad_request', `version ${version} lies before the checkpoint of record ${trusted.record}`, {
      field: 'from-checkpoint',
    })
  const batches: BatchReport[] = []
  const total = version === null ? (state.batches.get(policy)?.length ?? 0) - (trusted?.batches ?? 0) : 1
  for (const batch of batchesToVerify(audit, version)) {
    throwIfAborted(ports.signal)
    batches.push(await verifyBatch(ports, state, batch, auditBatch(state, batch)))
    ports.onProgress?.(batches.length, Math.max(total, batches.length))
  }
  const imported = trusted ? null : await unmatchedImport(ports.log, state)
  const fault = broken ?? imported ?? unmatchedVersion(audit)
  const first = fault ?? batches.find((report) => !report.ok)?.difference ?? null
  const ok = first === null && batches.every((report) => report.ok)
  return { ok, policy, batches, proves: provenBy(batches.map(({ mode }) => mode)), first, unreadable, trusted }
}

/** Whether the imported adapter is there with the tensors that the line's first record names. */
const unmatchedImport = async (log: EventLog, state: AuditState): Promise<Difference | null> => {
  const { started, versions } = weightLine(state.weights, state.policy)
  const imported = started?.imported
  const base = versions.get(0)
  if (!imported || !base) return null
  const where = { topic: 'weights', key: state.policy, record: base.record, type: 'LineStarted' }
  try {
    const { digest, count } = tensorsDigest(await getBlob(log, imported.adapter, base.blobsAt))
    if (digest === imported.tensors && count === imported.tensorCount) return null
    return { ...where, what: 'the tensors of the imported adapter are not those that were recorded' }
  } catch (error) {
    return unreadable(state, error, where)
  }
}

const verifyBatch = async (
  ports: VerifyPorts,
  state: AuditState,
  batch: BatchState,
  difference: Difference | null,
): Promise<BatchReport> => {
  const verdict = weightLine(state.weights, state.policy).verdicts.get(batch.update?.id ?? '')
  const report: BatchReport = {
    batch: batch.sealed.number,
    version: verdict?.accepted ? verdict.version : null,
    mode: 'no_update',
    ok: difference === null,
    adapter: batch.update?.event.adapter ?? null,
    found: null,
    difference,
  }
  if (!batch.update || difference) return report
  const { event, id } = batch.update
  const differs = (what: string): BatchReport => ({
    ...report,
    ok: false,
    difference: { topic: 'updates', key: state.policy, record: id, type: 'UpdateComputed', what },
  })
  for (const sha256 of [event.adapter, event.state]) {
    try {
      await getBlob(ports.log, sha256, event.blobsAt)
    } catch (error) {
      return {
        ...report,
        mode: 'digests',
        ok: false,
        difference: unreadable(state, error, { topic: 'blobs', key: sha256, record: sha256, type: 'BlobChunk' }),
      }
    }
  }
  if (event.remote) {
    const reader = createTurnReader(ports.log, (turn) => state.turns.turns.get(turn))
    const found = { ...report, mode: 'requests' as const, found: event.adapter }
    try {
      const { what, ...remote } = await verifyRemote({ ...ports, reader }, state, batch)
      return { ...found, ...(what === null ? {} : differs(what)), ...remote, found: event.adapter }
    } catch (error) {
      const where = { topic: 'updates', key: state.policy, record: id, type: 'UpdateComputed' }
      return { ...found, ok: false, difference: unreadable(state, error, where) }
    }
  }
  if (!ports.learner || !isSameEngine(event.fingerprint, ports.learner.fingerprint()))
    return { ...report, mode: 'digests', found: event.adapter }
  let result: Awaited<ReturnType<typeof recompute>>
  try {
    result = await recompute({ ...ports, learner: ports.learner }, state, batch, null)
  } catch (error) {
    return {
      ...report,
      mode: 'recompute',
      ok: false,
      difference: unreadable(state, error, {
        topic: 'updates',
        key: state.policy,
        record: batch.id,
        type: 'BatchSealed',
      }),
    }
  }
  const found = { ...report, mode: 'recompute' as const, found: result.adapter.sha256 }
  if (result.adapter.sha256 === event.adapter && result.stateSha256 === event.state) return found
  const what = [`recomputed adapter ${result.adapter.sha256}`, ...otherItems(event.figures, result)].join('; ')
  return { ...differs(what), mode: 'recompute', found: result.adapter.sha256 }
}

/** The blob or turn that an error of reading names, otherwise `otherwise`. Rethrows errors that a retry may resolve. */
const unreadable = (state: AuditState, error: unknown, otherwise: Omit<Difference, 'what'>): Difference => {
  if (!(error instanceof InstarError) || error.retryable) throw error
  const { sha256, turn } = error.details
  const known = typeof turn === 'string' ? state.turns.turns.get(turn) : undefined
  const where =
    typeof sha256 === 'string'
      ? { topic: 'blobs', key: sha256, record: sha256, type: 'BlobChunk' }
      : known
        ? { topic: 'turns', key: known.session, record: known.record, type: 'TurnCaptured' }
        : otherwise
  return { ...where, what: error.message }
}

/** Computes a recorded batch again. `parent` null: the parent that the batch names, read from the log. */
export const recompute = async (
  ports: { log: EventLog; learner: LearningEngine; model: Model },
  state: AuditState,
  batch: BatchState,
  parent: Parent | null,
): ReturnType<typeof stepBatch> => {
  const reader = createTurnReader(ports.log, (turn) => state.turns.turns.get(turn))
  const { sealed } = batch
  return stepBatch(
    { ...ports, reader },
    sealed,
    parent ?? (await recordedParent(ports.log, state, sealed.policy, sealed.parent.version)),
  )
}

/** Adapter and optimizer state of a version, read from the log. Throws `unknown_version` and errors of the blobs. */
export const recordedParent = async (
  log: EventLog,
  state: Pick<AuditState, 'weights'>,
  policy: string,
  version: number,
): Promise<Parent> => {
  const found = weightLine(state.weights, policy).versions.get(version)
  if (!found) throw new InstarError('unknown_version', `${policy} has no version ${version}`, { version })
  if (found.adapter === null) return { adapter: null, state: null }
  return {
    adapter: adapterFromWeights(await getBlob(log, found.adapter, found.blobsAt)),
    state: found.state === null ? null : optimizerState(await getBlob(log, found.state, found.blobsAt)),
    base: await baseAdapter(log, state.weights, policy),
  }
}
