/**
 * What to do after each response of `retrieve_future`. Sources: SDK tinker 0.38.0 and SkyRL 0.4.0.
 */
import type { InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { failure, isTransient, messageIn, quoted, refusal } from './refusals.ts'

/** One response; `status` 0: there was none (`text`: why). `tookMs`: how long it took. */
export type Polled = { status: number; contentType: string; text: string; retryAfterMs: number | null; tookMs: number }

/** Counts of one request. `quick`: responses in succession that said "not yet" at once; `faults`: failed polls. */
export type Polling = { quick: number; faults: number; refused: number; resubmitted: number }
export const NO_POLLS: Polling = { quick: 0, faults: 0, refused: 0, resubmitted: 0 }

export type Next =
  | { do: 'read' }
  | { do: 'poll'; waitMs: number; polling: Polling }
  | { do: 'resubmit'; polling: Polling }
  | { do: 'fail'; error: InstarError }

/** A poll that took less did not wait for the result. */
const QUICK_MS = 1000
const FIRST_WAIT_MS = 250
const LONGEST_QUICK_WAIT_MS = 5000
/** As the SDK waits after refused connections. */
export const LONGEST_WAIT_MS = 30_000
/** A proxy may answer 400 in place of the server, without the server's message. */
const REFUSED_MAX = 3
const RESUBMITTED_MAX = 3

export const backOffMs = (attempt: number, longestMs = LONGEST_WAIT_MS): number =>
  Math.min(FIRST_WAIT_MS * 2 ** Math.min(attempt, 20), longestMs)

const again = (polled: Polled, polling: Polling): Next => {
  const quick = polled.tookMs < QUICK_MS ? polling.quick + 1 : 0
  const waitMs = quick === 0 ? 0 : backOffMs(quick - 1, LONGEST_QUICK_WAIT_MS)
  return { do: 'poll', waitMs: Math.max(waitMs, polled.retryAfterMs ?? 0), polling: { ...polling, quick, faults: 0 } }
}

const fault = (polled: Polled, polling: Polling): Next => ({
  do: 'poll',
  waitMs: Math.max(backOffMs(polling.faults), polled.retryAfterMs ?? 0),
  polling: { ...polling, faults: polling.faults + 1 },
})

const resubmit = (polled: Polled, polling: Polling, error: InstarError): Next =>
  polling.resubmitted < RESUBMITTED_MAX
    ? { do: 'resubmit', polling: { ...polling, resubmitted: polling.resubmitted + 1 } }
    : { do: 'fail', error }

export const afterPoll = (url: string, kind: string, polled: Polled, polling: Polling): Next => {
  const { status, text } = polled
  const refused = (): InstarError => refusal(url, `the result of ${kind}`, status, text, kind)
  if (status === 408) return again(polled, polling)
  if (status === 0 || isTransient(status)) return fault(polled, polling)
  // 410: the promise is lost. 404: the server does not know it, after a loss of its database.
  if (status === 410 || status === 404) return resubmit(polled, polling, refused())
  if (status === 400) {
    const message = messageIn(text)
    if (message !== null) return { do: 'fail', error: failure(url, kind, message, 'unknown') }
    return polling.refused < REFUSED_MAX
      ? { do: 'poll', waitMs: backOffMs(polling.refused), polling: { ...polling, refused: polling.refused + 1 } }
      : { do: 'fail', error: refused() }
  }
  if (status !== 200) return { do: 'fail', error: refused() }
  if (polled.contentType.includes('protobuf')) return { do: 'read' }
  const body = parseJsonObject(text)
  if (body?.['type'] === 'try_again') return again(polled, polling)
  if (typeof body?.['error'] === 'string')
    return {
      do: 'fail',
      error: failure(
        url,
        kind,
        quoted(body['error']),
        typeof body['category'] === 'string' ? body['category'] : 'unknown',
      ),
    }
  return { do: 'read' }
}
