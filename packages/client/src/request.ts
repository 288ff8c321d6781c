/** Requests to the gateway, with retries. */
import { retryAfterMs, faultOf, InstarClientError } from './fault.ts'

export type RequestOptions = {
  method: 'GET' | 'POST'
  path: string
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}

export type RequestPorts = {
  root: string
  apiKey: string | null
  fetch: typeof fetch
  maxRetries: number
  timeoutMs: number
  /** Milliseconds. If a response asks for a longer wait, the request fails. */
  maxWaitMs: number
}

const FIRST_WAIT_MS = 250

/** Resolves with the parsed JSON. Rejects with `InstarClientError`, or with the reason of `signal`. */
export const request = async (ports: RequestPorts, options: RequestOptions): Promise<unknown> => {
  for (let attempt = 0; ; attempt += 1) {
    const outcome = await sendOnce(ports, options)
    if ('value' in outcome) return outcome.value
    const wait = outcome.wait ?? FIRST_WAIT_MS * 2 ** attempt * (0.75 + Math.random() / 2)
    if (!outcome.fault.retryable || attempt >= ports.maxRetries || wait > ports.maxWaitMs) throw outcome.fault
    await sleep(wait, options.signal)
  }
}

type Outcome = { value: unknown } | { fault: InstarClientError; wait: number | null }

const sendOnce = async (
  { root, apiKey, fetch: send, timeoutMs }: RequestPorts,
  { method, path, body, headers, signal }: RequestOptions,
): Promise<Outcome> => {
  const timeout = AbortSignal.timeout(timeoutMs)
  let response: Response
  let text: string
  try {
    response = await send(`${root}${path}`, {
      method,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: {
        accept: 'application/json',
        ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    text = await response.text()
  } catch (cause) {
    signal?.throwIfAborted()
    const why = timeout.aborted ? `sent no response within ${timeoutMs / 1000} s` : 'is unreachable'
    return {
      fault: new InstarClientError(
        `The gateway at ${root} ${why}.`,
        { status: 0, code: 'no_answer', requestId: null, retryable: true },
        { cause },
      ),
      wait: null,
    }
  }
  const parsedBody = parsed(text)
  if (response.ok) return { value: parsedBody }
  return {
    fault: faultOf(response.status, parsedBody, response.headers),
    wait: retryAfterMs(response.headers, Date.now()),
  }
}

/** Null if the text is not JSON. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const sleep = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal?.reason instanceof Error ? signal.reason : new Error('aborted'))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
