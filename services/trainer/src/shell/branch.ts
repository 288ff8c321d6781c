/** The records of one branch, appended in order: this run is its only writer. */
import {
  decodeRecord,
  encodeEvent,
  nextVersion,
  updateLine,
  weightLine,
  type BatchSealed,
  type Event,
  type Logged,
} from '@instar/events'
import { persist, putBlob, versionsOn, type EventLog } from '@instar/log'
import type { StepResult } from '@instar/engine/port'
import { evolveAudit, type AuditState } from '../core/audit.ts'

/** The gate's verdict on the batch on main; `version` null: rejected. */
export type Recorded = { version: number | null; reason: string; figures: Record<string, number> }

/** `folded`: called with each record of the branch; the next one waits for the returned promise. */
type BranchPorts = {
  log: EventLog
  now: () => number
  signal: AbortSignal
  folded(logged: Logged): Promise<void> | undefined
}

export class Branch {
  readonly key: string
  private readonly state: AuditState
  private readonly ports: BranchPorts
  /** Main's version → this branch's. */
  private readonly copies = new Map<number, number>()

  constructor(ports: BranchPorts, state: AuditState, key: string, from: number) {
    this.ports = ports
    this.state = state
    this.key = key
    this.copies.set(from, 0)
  }

  /** Appends and folds; a lost race shows as a stale record. The record's id. */
  async append(event: Event): Promise<string> {
    const record = encodeEvent(event, versionsOn(this.ports.log))
    await persist(this.ports.log, [record], this.ports.signal)
    const logged = decodeRecord({ ...record, partition: 0, offset: 0 })
    evolveAudit(this.state, logged)
    await this.ports.folded(logged)
    return record.id
  }

  /** Place of the next batch in the branch's chain. */
  next(): { prev: string; number: number } {
    const line = updateLine(this.state.updates, this.key)
    return { prev: line.chain.tip, number: line.count + 1 }
  }

  head(): BatchSealed['parent'] {
    const line = weightLine(this.state.weights, this.key)
    const head = line.versions.get(line.head)
    return { version: head?.version ?? 0, adapter: head?.adapter ?? null, state: head?.state ?? null }
  }

  /** What main trained from, as this branch has it: a rollback there is a fork here. */
  copyOf(parent: BatchSealed['parent']): BatchSealed['parent'] {
    const copy = weightLine(this.state.weights, this.key).versions.get(this.copies.get(parent.version) ?? -1)
    return copy ? { version: copy.version, adapter: copy.adapter, state: copy.state } : { ...parent, version: 0 }
  }

  /** A batch that nothing is to be learned from. */
  async recordFailure(sealed: BatchSealed, reason: string): Promise<void> {
    const { prev, number } = this.next()
    const batch = await this.append({ ...sealed, policy: this.key, prev, number })
    await this.append({
      type: 'UpdateFailed',
      prev: this.next().prev,
      policy: this.key,
      batch,
      number,
      reason,
      at: this.ports.now(),
    })
  }

  /** Batch, update and verdict. `verdict` null: accepted, no gate was asked. */
  async record(sealed: BatchSealed, result: StepResult, verdict: Recorded | null): Promise<void> {
    const { prev, number } = this.next()
    const batch = await this.append({ ...sealed, policy: this.key, prev, number })
    const at = this.ports.now()
    await putBlob(this.ports.log, result.state, at, this.ports.signal)
    await putBlob(this.ports.log, result.adapter.weights, at, this.ports.signal)
    const update = await this.append({
      type: 'UpdateComputed',
      prev: this.next().prev,
      policy: this.key,
      batch,
      number,
      adapter: result.adapter.sha256,
      adapterBytes: result.adapter.weights.length,
      state: result.stateSha256,
      stateBytes: result.state.length,
      blobsAt: at,
      fingerprint: result.fingerprint,
      figures: { ...result.figures },
      startedAt: at,
      at: this.ports.now(),
    })
    const line = weightLine(this.state.weights, this.key)
    const common = {
      prev: line.chain.tip,
      policy: this.key,
      update,
      adapter: result.adapter.sha256,
      parent: sealed.parent.version,
      at: this.ports.now(),
    }
    if (verdict && verdict.version === null) {
      await this.append({
        type: 'VersionRejected',
        ...common,
        reason: verdict.reason,
        figures: verdict.figures,
        evidence: [],
      })
      return
    }
    const version = nextVersion(line)
    await this.append({
      type: 'VersionPublished',
      ...common,
      number: version,
      adapterBytes: result.adapter.weights.length,
      state: result.stateSha256,
      blobsAt: at,
      why: 'update',
      source: null,
      figures: verdict?.figures ?? {},
    })
    if (verdict?.version) this.copies.set(verdict.version, version)
  }
}
