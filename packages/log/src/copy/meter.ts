/** Progress of a copy. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { LogRecord, Offsets } from '../port.ts'

export type CopyPhase = 'compare' | 'copy' | 'check source' | 'check copy'

/**
 * `share`: 0 to 1 of the topic in this phase, estimated from positions. Records and payload bytes are those of the
 * topic in this phase so far.
 */
export type CopyProgress = { phase: CopyPhase; topic: Topic; share: number; records: number; bytes: number }

export type CopyObserver = { onProgress(progress: CopyProgress): void; signal?: AbortSignal | undefined }

/** Progress is reported once per this many bytes; a record counts as at least `RECORD_BYTES`. */
const STEP_BYTES = 1 << 20
const RECORD_BYTES = 256

/** Progress of one read of a topic between two positions; reports at each step and at the end. */
export class Meter {
  readonly #about: { phase: CopyPhase; topic: Topic }
  readonly #observer: CopyObserver
  readonly #next: Map<number, number>
  readonly #total: number
  #done = 0
  #records = 0
  #bytes = 0
  #since = 0

  constructor(
    about: { phase: CopyPhase; topic: Topic },
    { from = {}, to }: { from?: Offsets; to: Offsets },
    observer: CopyObserver,
  ) {
    const starts = Object.entries(from[about.topic] ?? {}).map(
      ([partition, offset]) => [Number(partition), offset] as const,
    )
    this.#about = about
    this.#observer = observer
    this.#next = new Map(starts)
    this.#total =
      Object.values(to[about.topic] ?? {}).reduce((sum, end) => sum + end, 0) -
      starts.reduce((sum, [, start]) => sum + start, 0)
  }

  /** Throws `aborted` when the signal came. */
  readonly read = ({ partition, offset, payload }: LogRecord): void => {
    if (this.#observer.signal?.aborted) throw aborted()
    this.#done += offset + 1 - (this.#next.get(partition) ?? 0)
    this.#next.set(partition, offset + 1)
    this.#records++
    this.#bytes += payload.length
    this.#since += RECORD_BYTES + payload.length
    if (this.#since >= STEP_BYTES) this.#tell(this.#done / this.#total)
  }

  end(): void {
    this.#tell(1)
  }

  #tell(share: number): void {
    this.#since = 0
    this.#observer.onProgress({ ...this.#about, share, records: this.#records, bytes: this.#bytes })
  }
}

export const aborted = (): InstarError =>
  new InstarError('aborted', 'The copy was stopped; the next one goes on where it ended.')
