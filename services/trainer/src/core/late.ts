/** Batches that were sealed before a checkpoint, and of which a later record is behind it. */
import { batchOfUpdate, updateLine, weightLine, type BatchState, type Event, type Logged } from '@instar/events'
import type { AuditState } from './audit-state.ts'

export class Late {
  readonly #state: AuditState
  readonly #found = new Map<string, number>()
  /** Batches that were sealed behind the checkpoint and have no outcome. */
  readonly #open = new Set<string>()

  constructor(state: AuditState) {
    this.#state = state
  }

  /** In the order of their numbers. */
  ids(): string[] {
    return [...this.#found].sort(([, a], [, b]) => a - b).map(([id]) => id)
  }

  /** Calls `fold` with a record behind the checkpoint. `weights` must be read before `updates`. */
  fold({ id, event }: Logged<Event>, fold: () => void): void {
    if (!('policy' in event) || event.policy !== this.#state.policy) return fold()
    if (event.type === 'BatchSealed') {
      // A repetition of a record before the checkpoint is no new batch.
      const known = this.#batch(id) !== undefined
      fold()
      if (!known && this.#batch(id)) this.#open.add(id)
    } else if (event.type === 'UpdateComputed' || event.type === 'UpdateFailed') {
      const wasOpen = this.#batch(event.batch)?.status === 'sealed'
      fold()
      const batch = this.#batch(event.batch)
      if (wasOpen && batch && batch.status !== 'sealed' && !this.#open.delete(batch.id)) this.#add(batch)
    } else if (event.type === 'VersionPublished' || event.type === 'VersionRejected') {
      const { verdicts } = weightLine(this.#state.weights, this.#state.policy)
      const known = verdicts.has(event.update)
      fold()
      // An update behind the checkpoint is not read yet.
      const batch = batchOfUpdate(updateLine(this.#state.updates, this.#state.policy), event.update)
      if (!known && verdicts.has(event.update) && batch) this.#add(batch)
    } else fold()
  }

  #batch(id: string): BatchState | undefined {
    return updateLine(this.#state.updates, this.#state.policy).byId.get(id)
  }

  #add({ id, sealed }: BatchState): void {
    this.#found.set(id, sealed.number)
  }
}
