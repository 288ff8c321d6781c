/** Exports of sessions that run: each holds a line, up to a whole prompt with its ids, until its reader takes it. */
import { InstarError } from '@instar/events'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Exports that may run at a time. */
export const MOST_EXPORTS = 4
/** Exports of one key, of the operator, or of one address without a key. */
export const MOST_EXPORTS_EACH = 2
const RETRY_MS = 5_000

export class Exports {
  private readonly running = new Set<{ who: string }>()

  get size(): number {
    return this.running.size
  }

  /** `who`: the caller. Returns what ends it, which may be called again. Throws `overloaded` if no further one may run. */
  begin(who: string): () => void {
    const own = [...this.running].filter((one) => one.who === who).length
    if (own >= MOST_EXPORTS_EACH || this.size >= MOST_EXPORTS)
      throw new InstarError(
        'overloaded',
        own >= MOST_EXPORTS_EACH
          ? `${own} exports of this caller run, as many as may; read one to its end first.`
          : `${MOST_EXPORTS} exports of sessions run, as many as may.`,
        { retryAfterMs: RETRY_MS },
      )
    const one = { who }
    this.running.add(one)
    return () => void this.running.delete(one)
  }
}

/**
 * The lines, each taken once the response has room. `hold`: charges memory, in all the bytes of the longest line; throws its
 * error. `gone`: aborted when the client has disconnected.
 */
export const readAsTaken = async function* (
  lines: AsyncIterable<string>,
  raw: ServerResponse,
  gone: AbortSignal,
  hold: (bytes: number) => void,
): AsyncGenerator<string> {
  let held = 0
  for await (const line of lines) {
    const bytes = Buffer.byteLength(line)
    if (bytes > held) hold(bytes - held)
    held = Math.max(held, bytes)
    yield line
    // The stream would read one line ahead.
    if (raw.writableNeedDrain) await once(raw, 'drain', { signal: gone }).catch(() => undefined)
  }
}
