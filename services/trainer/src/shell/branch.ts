/** Appends the records of one branch in order; a replay is the only writer of its branch. */
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
import { evolveAudit, type AuditState } from '../core/audit-state.ts'

/** The recorded verdict of the gate on a batch of the policy; `version` null: rejected. */
export type RecordedVerdict = { version: number | null; reason: string; figures: Record<string, number> }

/** `afterFold`: called with each record of the branch and awaited before the next one. `now`: ms since the epoch. */
type BranchPorts = {
  log: EventLog
  now: () => number
  signal: AbortSignal
  afterFold(logged: Logged): Promise<void> | undefined
}

export class Branch {
  readonly key: string
  private readonly state: AuditState
  private readonly ports: BranchPorts
  /** By version of the policy: its copy on this branch. */
  private readonly copies = new Map<number, number>()

  constructor(ports: BranchPorts, state: AuditState, key: string, from: number) {
    this.ports = ports
    this.state = state
    this.key = key
    this.copies.set(from, 0)
  }

  /** Appends and folds a record; returns its id. If another writer has extended the chain, folds ignore it. */
  async append(event: Event): Promise<string> {
    const record = encodeEvent(event, versionsOn(this.ports.log))
    await persist(this.ports.log, [record], this.ports.signal)
    const logged = decodeRecord({ ...record, partition: 0, offset: 0 })
    evolveAudit(this.state, logged)
    await this.ports.afterFold(logged)
    return record.id
  }

  /** Predecessor and number of the branch's next batch. */
  next(): { prev: string; number: number } {
    const line = updateLine(this.state.updates, this.key)
    return { prev: line.chain.tip, number: line.count + 1 }
  }

  head(): BatchSealed['parent'] {
    const line = weightLine(this.state.weights, this.key)
    const head = line.versions.get(line.head)
    return { version: head?.version ?? 0, adapter: head?.adapter ?? null, state: head?.state ?? null }
  }

  /** The branch's copy of a recorded parent: after a rollback of the policy, the branch forks. */
  copyOf(parent: BatchSealed['parent']): BatchSealed['parent'] {
    const copy = weightLine(this.state.weights, this.key).versions.get(this.copies.get(parent.version) ?? -1)
    return copy ? { version: copy.version, adapter: copy.adapter, state: copy.state } : { ...parent, version: 0 }
  }

  /** Appends a batch without signal and its failure. */
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

  /** Appends batch, update and verdict. `verdict` null: the version is accepted without the gate. */
  async record(sealed: BatchSealed, result: StepResult, verdict: RecordedVerdict | null): Promise<void> {
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
