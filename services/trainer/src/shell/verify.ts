/** `instar verify`: checks from the log alone that every version is the one its records describe. */
import {
  batchOfUpdate,
  InstarError,
  requireBase,
  updateLine,
  weightLine,
  type BatchState,
  type VersionPublished,
} from '@instar/events'
import { createTurnReader, getBlob, type CopyProgress, type EventLog } from '@instar/log'
import type { LearningEngine, Model, Parent } from '@instar/engine/port'
import { adapterFromWeights, tensorsDigest } from '@instar/policy'
import { auditBatch, type AuditState, type Difference } from '../core/audit.ts'
import { isSameEngine, provenBy, type Mode } from '../core/modes.ts'
import { readAudit, throwIfAborted, type Audit, type Unreadable } from './audit.ts'
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
  unreadable: Unreadable
}

/** `version` null: all batches of the policy, including rejected ones. Throws `unknown_version` and `aborted`,
 * and `other_base` where something is computed and the model is another one than the line's. */
export const verify = async (ports: VerifyPorts, policy: string, version: number | null): Promise<VerifyReport> => {
  const audit = await readAudit(ports.log, policy, ports.signal, ports.onRead)
  try {
    return await verifyAll(ports, audit, version)
  } finally {
    await audit.close()
  }
}

const verifyAll = async (
  ports: VerifyPorts,
  { state, broken, unreadable }: Audit,
  version: number | null,
): Promise<VerifyReport> => {
  const { policy } = state
  const line = weightLine(state.weights, policy)
  // Another model would give other prompts, and other weights than the recorded ones.
  if (ports.learner || ports.server) requireBase(line, ports.model)
  if (!broken && version !== null && !line.versions.has(version))
    throw new InstarError('unknown_version', `${policy} has no version ${version}`, { version })
  const batches: BatchReport[] = []
  const total = version === null ? (state.batches.get(policy)?.length ?? 0) : 1
  for (const batch of batchesToVerify(state, version)) {
    throwIfAborted(ports.signal)
    batches.push(await verifyBatch(ports, state, batch, auditBatch(state, batch)))
    ports.onProgress?.(batches.length, Math.max(total, batches.length))
  }
  const fault = broken ?? (await unmatchedImport(ports.log, state)) ?? unmatchedVersion(state)
  const first = fault ?? batches.find((report) => !report.ok)?.difference ?? null
  const ok = first === null && batches.every((report) => report.ok)
  return { ok, policy, batches, proves: provenBy(batches.map(({ mode }) => mode)), first, unreadable }
}

/** The policy's batches, and the batches of branches from which versions were promoted. */
function* batchesToVerify(state: AuditState, version: number | null): Generator<BatchState> {
  if (version === null) {
    const order = state.batches.get(state.policy)
    for (let i = 0; i < (order?.length ?? 0); i += 1) {
      const batch = updateLine(state.updates, state.policy).byId.get(order?.at(i) ?? '')
      if (batch) yield batch
    }
  }
  for (const { published } of publishedVersions(state)) {
    const batch =
      published.number === version || (version === null && published.why === 'promotion')
        ? batchOfVersion(state, published)
        : undefined
    if (batch) yield batch
  }
}

function* publishedVersions(state: AuditState): Generator<{ published: VersionPublished; record: string }> {
  const line = weightLine(state.weights, state.policy)
  for (let number = 1; number <= line.last; number += 1) {
    const found = line.versions.get(number)
    if (found?.published) yield { published: found.published, record: found.record }
  }
}

const batchOfVersion = (state: AuditState, published: VersionPublished): BatchState | undefined =>
  batchOfUpdate(updateLine(state.updates, published.source?.policy ?? state.policy), published.update)

/** The first published version whose update is missing on `updates` or has other contents. */
const unmatchedVersion = (state: AuditState): Difference | null => {
  for (const { published, record } of publishedVersions(state)) {
    const batch = batchOfVersion(state, published)
    const event = batch?.update?.event
    const same =
      batch?.update?.id === published.update &&
      event?.adapter === published.adapter &&
      event.state === published.state &&
      event.blobsAt === published.blobsAt
    if (!same || (published.why === 'update' && batch?.sealed.parent.version !== published.parent))
      return {
        topic: 'weights',
        key: state.policy,
        record,
        type: 'VersionPublished',
        what: `version ${published.number} differs from the update that it names`,
      }
  }
  return null
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
