/** Sends heavy requests and awaits their results: retries, long polls, and one order for the requests of a model. */
import { InstarError } from '@instar/events/errors'
import { parseJsonObject, type JsonObject } from '@instar/events/json'
import { contentSha } from '@instar/events/ids'
import { afterPoll, backOffMs, NO_POLLS, type Polled, type Polling } from '../core/polling.ts'
import { isSavedBefore, isTransient, quoted, refusal } from '../core/refusals.ts'
import { JSON_TYPE, PROTOBUF } from '../core/requests.ts'
import type { RequestKind } from '../port.ts'
import { NoResponse, type HttpResponse, type TinkerHttp } from './http.ts'
import { unlessAborted, wait } from './wait.ts'

/**
 * Milliseconds. `submitMs`: of all tries to hand in a request. `resultMs`: until its result is there. `unloadMs`: of an unload,
 * with the wait for the requests before it.
 */
export type Patience = { submitMs: number; resultMs: number; unloadMs: number }

export type Kind = RequestKind | 'create_model' | 'unload_model' | 'sample'

/** `sent`: what was accepted. `body`: of the response to the request itself. */
export type Accepted = { requestId: string; body: JsonObject }
export type Outcome = Accepted & { bytes: Uint8Array; contentType: string; sha256: string }

/** A request as it goes out. `repeatable`: a second send has no other effect than the first. */
export type Outgoing = { kind: Kind; path: string; bytes: Uint8Array; contentType: string; repeatable: boolean }

type Open = { isPass: boolean; accepted: Promise<unknown>; result: Promise<unknown> }

/** A save whose checkpoint exists: its request id is lost. */
export class SavedBefore extends Error {}

/** Log-probs of a request's rows take less than the request; half a megabyte is for metrics. */
const resultBytesMax = (request: Outgoing): number => 4 * request.bytes.length + (1 << 19) + (4 << 20)

export class Futures {
  readonly #http: TinkerHttp
  readonly #patience: Patience
  /** Of each model, the requests without a result, in order. */
  readonly #open = new Map<string, Open[]>()
  readonly #closing = new AbortController()

  constructor(http: TinkerHttp, patience: Patience) {
    this.#http = http
    this.#patience = patience
  }

  close(): void {
    this.#closing.abort(new InstarError('stopping', 'the training server is no longer needed'))
  }

  /**
   * Hands the request in after those of the same model that were handed in earlier, and awaits its result. Passes are
   * handed in without waiting for each other's results; all else waits for the results of what is before it, and is
   * waited for: the engine of SkyRL 0.4.0 reads its queue by several queries, and a step that is handed in between two of
   * them runs before its pass, without a gradient (seen).
   */
  async run(model: string, request: Outgoing, outer?: AbortSignal): Promise<Outcome> {
    const signal = this.#signal(outer)
    const isPass = request.kind === 'forward' || request.kind === 'forward_backward'
    const open = this.#open.get(model) ?? []
    this.#open.set(model, open)
    const before = open.map((one) => (isPass && one.isPass ? one.accepted : one.result))
    const accepted = (async () => {
      // Where an earlier one was refused, this one would run without it.
      const first = request.kind === 'unload_model' ? Promise.allSettled(before) : Promise.all(before)
      await unlessAborted<unknown>(first, signal)
      return this.#submit(request, signal)
    })()
    const result = accepted.then((handedIn) => this.#result(request, handedIn, signal))
    const behind = result.catch((error: unknown) => {
      if (!(error instanceof SavedBefore)) throw error
    })
    // Its caller gets the error by `result`; here it is for those behind, of which there may be none.
    behind.catch(() => undefined)
    const own: Open = { isPass, accepted, result: behind }
    open.push(own)
    try {
      return await result
    } finally {
      open.splice(open.indexOf(own), 1)
      if (open.length === 0 && this.#open.get(model) === open) this.#open.delete(model)
    }
  }

  /** One request with an immediate answer, tried again as long as that may help. Any status below 500. */
  async ask(
    what: string,
    request: { method: 'GET' | 'POST' | 'DELETE'; path: string; body?: JsonObject },
    outer?: AbortSignal,
  ): Promise<HttpResponse> {
    const { body, ...rest } = request
    const bytes = body && new TextEncoder().encode(JSON.stringify(body))
    return this.#patiently(what, this.#signal(outer), true, () =>
      this.#http.send({
        ...rest,
        ...(bytes ? { body: bytes, contentType: JSON_TYPE } : {}),
        signal: this.#signal(outer),
      }),
    )
  }

  #signal(outer: AbortSignal | undefined): AbortSignal {
    return outer ? AbortSignal.any([outer, this.#closing.signal]) : this.#closing.signal
  }

  async #submit(request: Outgoing, signal: AbortSignal): Promise<Accepted> {
    const { kind, path, bytes, contentType, repeatable } = request
    const response = await this.#patiently(kind, signal, repeatable, () =>
      this.#http.send({ method: 'POST', path, body: bytes, contentType, signal }),
    )
    const text = this.#http.textOf(response)
    if (kind.startsWith('save_') && isSavedBefore(response.status, text)) throw new SavedBefore()
    if (response.status === 415)
      throw new InstarError('trainer_mismatch', `${this.#http.url} does not take ${contentType}, which it took before`)
    if (response.status !== 200) throw refusal(this.#http.url, kind, response.status, text)
    const body = parseJsonObject(text)
    const requestId = body?.['request_id']
    if (!body || (typeof requestId !== 'string' && typeof requestId !== 'number'))
      throw new InstarError('trainer_mismatch', `${this.#http.url} answered ${kind} without a request_id`)
    return { requestId: String(requestId), body }
  }

  /** Retries without a response and with a transient status, within `submitMs`. */
  async #patiently(
    what: string,
    signal: AbortSignal,
    repeatable: boolean,
    send: () => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const until = performance.now() + this.#patience.submitMs
    for (let attempt = 0; ; attempt++) {
      let problem: string
      let waitMs = backOffMs(attempt)
      try {
        const response = await send()
        if (!isTransient(response.status)) return response
        problem = `${this.#http.url} answered ${what} with ${response.status}`
        waitMs = Math.max(waitMs, response.retryAfterMs ?? 0)
      } catch (error) {
        if (!(error instanceof NoResponse)) throw error
        problem = error.message
        if (error.sent && !repeatable) throw lost(problem)
      }
      if (performance.now() + waitMs > until) throw lost(problem)
      await wait(waitMs, signal)
    }
  }

  async #result(request: Outgoing, first: Accepted, signal: AbortSignal): Promise<Outcome> {
    const until = performance.now() + this.#patience.resultMs
    let accepted = first
    let polling: Polling = NO_POLLS
    for (;;) {
      const { polled, response } = await this.#poll(request, accepted.requestId, signal)
      const next = afterPoll(this.#http.url, request.kind, polled, polling)
      if (next.do === 'fail') throw next.error
      if (next.do === 'read' && response) {
        const { bytes, contentType } = response
        return { ...accepted, bytes, contentType, sha256: contentSha(bytes) }
      }
      if (next.do === 'resubmit') {
        polling = next.polling
        accepted = await this.#submit(request, signal)
      } else if (next.do === 'poll') {
        polling = next.polling
        if (performance.now() + next.waitMs > until) {
          const problem = `${this.#http.url} has no result of ${request.kind} after ${this.#patience.resultMs} ms`
          // Not a proxy's status: a server says so of a result that it cannot send, such as a norm that is NaN.
          throw polled.status === 500
            ? new InstarError('trainer_failed', `${problem}: ${quoted(polled.text)}`)
            : lost(problem)
        }
        await wait(next.waitMs, signal)
      }
    }
  }

  async #poll(
    request: Outgoing,
    requestId: string,
    signal: AbortSignal,
  ): Promise<{ polled: Polled; response: HttpResponse | null }> {
    const start = performance.now()
    const body = new TextEncoder().encode(JSON.stringify({ request_id: requestId, allow_metadata_only: false }))
    try {
      const response = await this.#http.send({
        method: 'POST',
        path: '/api/v1/retrieve_future',
        body,
        contentType: JSON_TYPE,
        // SkyRL gives passes as protobuf whatever is accepted; others follow the header.
        accept: request.contentType === PROTOBUF || request.kind === 'sample' ? PROTOBUF : JSON_TYPE,
        limitMs: this.#http.limits.pollMs,
        maxBytes: resultBytesMax(request),
        signal,
      })
      const { status, contentType, retryAfterMs } = response
      const text = contentType.includes('protobuf') && status === 200 ? '' : this.#http.textOf(response)
      return { polled: { status, contentType, text, retryAfterMs, tookMs: performance.now() - start }, response }
    } catch (error) {
      if (!(error instanceof NoResponse)) throw error
      const tookMs = performance.now() - start
      // The server holds the poll longer than we wait: that is no fault.
      const status = tookMs >= this.#http.limits.pollMs ? 408 : 0
      return {
        polled: { status, contentType: '', text: error.message, retryAfterMs: null, tookMs },
        response: null,
      }
    }
  }
}

const lost = (problem: string): InstarError => new InstarError('trainer_lost', problem)
