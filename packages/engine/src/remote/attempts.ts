/**
 * The attempts to answer one request: which failures end it, how long to wait before the next round over the
 * replicas, and the error when no attempt is left.
 */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import type { GenerateRequest } from '../port.ts'
import { isBusy, asGrammarError } from '../protocols/faults.ts'
import type { EngineKind } from '../protocols/kinds.ts'
import { EngineFault } from './http.ts'
import type { Replica } from './replica.ts'

/** A longer Retry-After is not waited for: the client is given it. */
const RETRY_AFTER_MS_MAX = 5000

export class Attempts {
  private readonly kind: EngineKind
  private readonly request: GenerateRequest
  private readonly roundMs: number
  private readonly signal: AbortSignal | undefined
  private last: EngineFault | null = null
  private refused: InstarError | null = null

  constructor(kind: EngineKind, request: GenerateRequest, roundMs: number, signal: AbortSignal | undefined) {
    this.kind = kind
    this.request = request
    this.roundMs = roundMs
    this.signal = signal
  }

  /** Waits as long as round `round` has to. False: the engine asks for a longer wait, so there is no such round. */
  async wait(round: number): Promise<boolean> {
    const { last, signal } = this
    if (!last) return true
    if (isBusy(last.status) && (last.retryAfterMs ?? 0) > RETRY_AFTER_MS_MAX) return false
    const ms = Math.min(RETRY_AFTER_MS_MAX, last.retryAfterMs ?? this.roundMs * 4 ** (round - 1))
    await delay(ms, undefined, signal ? { signal } : {}).catch(() => undefined)
    return true
  }

  /** Throws what ends the request; returns where another attempt may answer it. `began`: a piece has been given out. */
  failed(error: unknown, replica: Replica, began: boolean): void {
    const { constraint, adapter } = this.request
    if (this.signal?.aborted) throw this.aborted()
    // Another replica may hold the adapter that this one refuses.
    if (error instanceof InstarError && error.code === 'adapter_refused') {
      this.refused = error
      return
    }
    if (error instanceof InstarError && constraint)
      throw asGrammarError(this.kind, error, constraint.json?.field ?? 'tool_choice')
    if (!(error instanceof EngineFault)) throw error
    this.last = error
    replica.failed(error, adapter)
    if (began)
      throw new InstarError(
        'engine_lost',
        `The engine failed in the middle of an answer: ${error.message}.`,
        {},
        { cause: error },
      )
  }

  /** Why the request has no answer after the last attempt. */
  error(): InstarError {
    const { last, refused } = this
    if (this.signal?.aborted) return this.aborted()
    if (refused && !last) return refused
    if (last && isBusy(last.status)) {
      const { retryAfterMs } = last
      // All attempts were made here: a client that repeated them would multiply them.
      const triesSpent = (retryAfterMs ?? 0) <= RETRY_AFTER_MS_MAX
      return new InstarError('overloaded', `The engine takes no more requests: ${last.message}.`, {
        ...(retryAfterMs === null ? {} : { retryAfterMs }),
        ...(triesSpent ? { triesSpent: true } : {}),
      })
    }
    return new InstarError(
      'engine_lost',
      `No engine answered: ${last?.message ?? 'none is there'}.`,
      {},
      { cause: last },
    )
  }

  private aborted(): InstarError {
    return new InstarError('aborted', 'The request was given up.', {}, { cause: this.signal?.reason })
  }
}
