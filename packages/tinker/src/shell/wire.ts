/** Which encoding a server takes, its limits, and what it says of itself. */
import { InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { DEFAULT_WIRE, forwardRequests } from '../core/requests.ts'
import { messageIn, quoted, refusal } from '../core/refusals.ts'
import type { Prepared, Wire } from '../port.ts'
import type { Futures } from './futures.ts'
import { NoResponse, type TinkerHttp } from './http.ts'

/** No server has a model of this name, so the request runs nothing. */
const UNKNOWN_MODEL = 'instar-wire-probe'
const ROW = { tokens: [1], targets: [1] }

const clamped = (value: unknown, fallback: number, most: number): number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1 ? Math.min(value, most) : fallback

/** Limits that the server states in `client/config`; the defaults of the SDK where it states none. */
const limitsOf = async (futures: Futures, http: TinkerHttp, signal?: AbortSignal): Promise<Wire> => {
  const response = await futures.ask(
    'client/config',
    { method: 'POST', path: '/api/v1/client/config', body: { sdk_version: '0.38.0' } },
    signal,
  )
  const config = response.status === 200 ? parseJsonObject(http.textOf(response)) : null
  return {
    ...DEFAULT_WIRE,
    rowsMax: clamped(config?.['fwdbwd_max_chunk_len'], DEFAULT_WIRE.rowsMax, 100_000),
    bytesMax: clamped(config?.['fwdbwd_max_chunk_bytes_count'], DEFAULT_WIRE.bytesMax, 64 << 20),
  }
}

/** SDK 0.38.0 no longer knows the archive, and asks for the files of a checkpoint of the kind `external_weights`. */
const adaptersOf = async (futures: Futures, http: TinkerHttp, signal?: AbortSignal): Promise<Wire['adapters']> => {
  const path = `/api/v1/training_runs/${UNKNOWN_MODEL}/checkpoints/none/archive`
  const response = await futures.ask('the archive of no checkpoint', { method: 'GET', path }, signal)
  return isNoSuchPath(response.status, http.textOf(response)) ? 'external_weights' : 'archive'
}

/**
 * Asks by a pass of a model that does not exist: a server that takes the encoding answers that it does not know the
 * model. Protobuf first, then JSON where it is refused with 415 or 422.
 */
export const decideWire = async (futures: Futures, http: TinkerHttp, signal?: AbortSignal): Promise<Wire> => {
  const limits = { ...(await limitsOf(futures, http, signal)), adapters: await adaptersOf(futures, http, signal) }
  const refusals: string[] = []
  for (const format of ['protobuf', 'json'] as const) {
    const wire = { ...limits, format }
    const [request] = forwardRequests(wire, UNKNOWN_MODEL, 1, [ROW])
    if (!request) continue
    const { status, text } = await once(http, request, signal)
    if (status === 401 || status === 403) throw refusal(http.url, 'the first request', status, text)
    if (status !== 415 && status !== 422) {
      if (status < 500 && !isNoSuchPath(status, text)) return wire
    }
    refusals.push(`${format}: ${status} ${quoted(messageIn(text) ?? text)}`)
  }
  throw new InstarError('trainer_mismatch', `${http.url} takes neither protobuf nor JSON (${refusals.join('; ')})`)
}

/** The answer of a server without that path, as FastAPI words it. */
const isNoSuchPath = (status: number, text: string): boolean =>
  status === 405 || (status === 404 && /^not found$/i.test(messageIn(text) ?? text.trim()))

const once = async (
  http: TinkerHttp,
  { endpoint, bytes, contentType }: Prepared,
  signal?: AbortSignal,
): Promise<{ status: number; text: string }> => {
  try {
    const response = await http.send({ method: 'POST', path: endpoint, body: bytes, contentType, signal })
    return { status: response.status, text: http.textOf(response) }
  } catch (error) {
    if (error instanceof NoResponse) throw new InstarError('trainer_lost', error.message)
    throw error
  }
}

/**
 * Product and version, from the document at `/` or `/openapi.json`, where servers name themselves. SkyRL 0.4.0 calls
 * itself "Tinker API Mock" and states no version of its own.
 */
export const serverProduct = async (
  futures: Futures,
  http: TinkerHttp,
  signal?: AbortSignal,
): Promise<{ product: string; version: string | null }> => {
  const response = await futures.ask('/', { method: 'GET', path: '/' }, signal)
  const body = response.status === 200 ? parseJsonObject(http.textOf(response)) : null
  const name = typeof body?.['name'] === 'string' ? body['name'].slice(0, 100) : ''
  const version = typeof body?.['version'] === 'string' ? body['version'].slice(0, 100) : null
  if (name === 'Tinker API Mock') return { product: 'skyrl', version: version === '0.0.1' ? null : version }
  return { product: name === '' ? 'unknown' : name, version }
}
