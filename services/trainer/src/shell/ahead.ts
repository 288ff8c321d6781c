/** Computes a batch ahead and keeps the step until its batch is sealed (core/ahead.ts). */
import { InstarError, type BatchSealed } from '@instar/events'
import { isSameBatch, type Ahead } from '../core/ahead.ts'
import type { TrainerState } from '../core/state.ts'
import { computeAhead, type ComputePorts, type Step } from './compute.ts'

export class AheadSteps {
  #last: (Ahead & { step: Step | null }) | null = null

  /** The batch that was computed last and has no record of its update yet. */
  get last(): Ahead | null {
    return this.#last
  }

  /** Where the step fails, it is computed again when its batch is sealed: then an error is the batch's. */
  async compute(
    ports: ComputePorts,
    state: TrainerState,
    ahead: Ahead,
    onProgress: (share: number) => void,
  ): Promise<void> {
    this.#last = { ...ahead, step: null }
    try {
      this.#last.step = await computeAhead(ports, state, ahead, onProgress)
    } catch (error) {
      ports.signal.throwIfAborted()
      if (!(error instanceof InstarError) || error.code === 'snapshot_damaged') throw error
    }
  }

  /** The step of a sealed batch; null: it was not computed ahead. */
  of(sealed: BatchSealed): Step | null {
    return this.#last?.step && isSameBatch(this.#last.sealed, sealed) ? this.#last.step : null
  }

  clear(): void {
    this.#last = null
  }
}
