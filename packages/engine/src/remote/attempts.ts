/**
 * The retries of one request: which failures end it, the delay before the next round over the replicas, and the error
 * after the last attempt.
 */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import type { GenerateRequest } from '../port.ts'
import { isBusy, asGrammarError } from '../protocols/faults.ts'
import type { EngineKind } from '../protocols/kinds.ts'
import { EngineFault } from './http.ts'
import type { Replica } from './replica.ts'

/** A longer Retry-After is not waited for; it is returned to the client. */
const MAX_RETRY_AFTER_MS = 5000

export type AttemptedRequest = Pick<GenerateRequest, 'adapter' | 'constraint'>

export class Attempts {
  private readonly kind: EngineKind
  private readonly request: AttemptedRequest
  private readonly roundMs: number
  private readonly signal: AbortSignal | undefined
  private lastFault: EngineFault | null = null
  private refused: InstarError | null = null

  constructor(kind: EngineKind, request: AttemptedRequest, roundMs: number, signal: AbortSignal | undefined) {
    this.kind = kind
    this.request = request
    this.roundMs = roundMs
    this.signal = signal
  }

  /** Waits before round `round`. Resolves with false if the engine's Retry-After exceeds MAX_RETRY_AFTER_MS. */
  async wait(round: number): Promise<boolean> {
    const { lastFault, signal } = this
    if (!lastFault) return true
    if (isBusy(lastFault.status) && (lastFault.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) return false
    const ms = Math.min(MAX_RETRY_AFTER_MS, lastFault.retryAfterMs ?? this.roundMs * 4 ** (round - 1))
    await delay(ms, undefined, signal ? { signal } : {}).catch(() => undefined)
    return true
  }

  /** Throws if `error` ends the request; returns if another attempt is allowed. `began`: a piece has been returned. */
  failed(error: unknown, replica: Replica, began: boolean): void {
    const { constraint, adapter } = this.request
    if (this.signal?.aborted) throw this.aborted()
    // Another replica may have the adapter that this one refuses.
    if (error instanceof InstarError && error.code === 'adapter_refused') {
      this.refused = error
      return
    }
    if (error instanceof InstarError && constraint)
      throw asGrammarError(this.kind, error, constraint.json?.field ?? 'tool_choice')
    if (!(error instanceof EngineFault)) throw error
    this.lastFault = error
    replica.failed(error, adapter)
    if (began)
      throw new InstarError(
        'engine_lost',
        `The engine failed during an answer: ${error.message}.`,
        {},
        { cause: error },
      )
  }

  /** The error of the request after its last attempt. */
  error(): InstarError {
    const { lastFault, refused } = this
    if (this.signal?.aborted) return this.aborted()
    if (refused && !lastFault) return refused
    if (lastFault && isBusy(lastFault.status)) {
      const { retryAfterMs } = lastFault
      // The attempts were made here: retries by the client would multiply them.
      const triesSpent = (retryAfterMs ?? 0) <= MAX_RETRY_AFTER_MS
      return new InstarError('overloaded', `The engine is overloaded: ${lastFault.message}.`, {
        ...(retryAfterMs === null ? {} : { retryAfterMs }),
        ...(triesSpent ? { triesSpent: true } : {}),
      })
    }
    return new InstarError(
      'engine_lost',
      `No engine answered: ${lastFault?.message ?? 'no replica is up'}.`,
      {},
      { cause: lastFault },
    )
  }

  private aborted(): InstarError {
    return new InstarError('aborted', 'The request was aborted.', {}, { cause: this.signal?.reason })
  }
}
