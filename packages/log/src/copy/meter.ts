/** Progress of a copy. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { LogRecord, Offsets } from '../port.ts'

type CopyPhase = 'compare' | 'copy' | 'check source' | 'check copy' | 'archive' | 'verify' | 'fold'

/**
 * `share`: from 0 to 1, the part of the topic that is done in this phase, estimated from offsets. `records` and `bytes`
 * (payloads) are those of the topic read so far in this phase.
 */
export type CopyProgress = { phase: CopyPhase; topic: Topic; share: number; records: number; bytes: number }

export type CopyObserver = { onProgress(progress: CopyProgress): void; signal?: AbortSignal | undefined }

/** Progress is reported once per `STEP_BYTES`; each record counts as its payload plus `RECORD_BYTES`. */
const STEP_BYTES = 1 << 20
const RECORD_BYTES = 256

/** Reports the progress of reading a topic between two positions: at each step and at the end. */
export class Meter {
  readonly #context: { phase: CopyPhase; topic: Topic }
  readonly #observer: CopyObserver
  readonly #next: Map<number, number>
  readonly #total: number
  #done = 0
  #records = 0
  #bytes = 0
  #since = 0

  constructor(
    context: { phase: CopyPhase; topic: Topic },
    { from = {}, to }: { from?: Offsets; to: Offsets },
    observer: CopyObserver,
  ) {
    const starts = Object.entries(from[context.topic] ?? {}).map(
      ([partition, offset]) => [Number(partition), offset] as const,
    )
    this.#context = context
    this.#observer = observer
    this.#next = new Map(starts)
    this.#total =
      Object.values(to[context.topic] ?? {}).reduce((sum, end) => sum + end, 0) -
      starts.reduce((sum, [, start]) => sum + start, 0)
  }

  /** Counts a record. Throws `aborted` if the signal is aborted. */
  readonly read = ({ partition, offset, payload }: LogRecord): void => {
    if (this.#observer.signal?.aborted) throw aborted()
    this.#done += offset + 1 - (this.#next.get(partition) ?? 0)
    this.#next.set(partition, offset + 1)
    this.#records++
    this.#bytes += payload.length
    this.#since += RECORD_BYTES + payload.length
    if (this.#since >= STEP_BYTES) this.#report(this.#done / this.#total)
  }

  end(): void {
    this.#report(1)
  }

  #report(share: number): void {
    this.#since = 0
    this.#observer.onProgress({ ...this.#context, share, records: this.#records, bytes: this.#bytes })
  }
}

export const aborted = (): InstarError => new InstarError('aborted', 'The copy was stopped; run it again to continue.')
