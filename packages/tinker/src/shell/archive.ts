/** Fetches the files of an adapter: one archive behind a redirect, or each file from a signed address. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject, parseJsonObject } from '@instar/events/json'
import { contentSha } from '@instar/events/ids'
import { isIP } from 'node:net'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { adapterOf, CONFIG_FILE, WEIGHTS_FILE } from '../core/adapter.ts'
import { backOffMs } from '../core/polling.ts'
import { isTransient, refusal } from '../core/refusals.ts'
import { readTar } from '../core/tar.ts'
import type { ArchiveFile, FetchedAdapter, Wire } from '../port.ts'
import type { Patience } from './futures.ts'
import { NoResponse, type HttpResponse, type TinkerHttp } from './http.ts'
import { wait } from './wait.ts'

/** `bytesMax`: of the archive, packed and unpacked, and of all files together. */
type Wanted = { run: string; name: string; base: string; from: Wire['adapters']; bytesMax: number }

const REDIRECTS_MAX = 3
const CONFIG_BYTES_MAX = 1 << 20
const FILES = [WEIGHTS_FILE, CONFIG_FILE]

const bad = (problem: string): InstarError => new InstarError('bad_checkpoint', `archive of an adapter: ${problem}`)

export const fetchAdapter = async (
  http: TinkerHttp,
  wanted: Wanted,
  patience: Patience,
  signal?: AbortSignal,
): Promise<FetchedAdapter> => {
  if (wanted.from === 'archive') {
    const archive = await fetchArchive(http, wanted, patience, signal)
    return adapterOf(readTar(await unpacked(archive, wanted.bytesMax), FILES), contentSha(archive), wanted.base)
  }
  const files = await fetchFiles(http, wanted, patience, signal)
  return adapterOf(files, contentSha(Buffer.concat(files.map(({ bytes }) => bytes))), wanted.base)
}

const unpack = promisify(gunzip) as (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Buffer>

/** A tar, packed by gzip or not. */
const unpacked = async (archive: Uint8Array, bytesMax: number): Promise<Uint8Array> => {
  if (archive[0] !== 0x1f || archive[1] !== 0x8b) return archive
  try {
    return await unpack(archive, { maxOutputLength: bytesMax })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw bad(code === 'ERR_BUFFER_TOO_LARGE' ? `it has more than ${bytesMax} bytes` : `gzip: ${message}`)
  }
}

/** Tries again while the checkpoint is being written (425) and while the server is busy or away. */
const patiently = async (
  http: TinkerHttp,
  patience: Patience,
  signal: AbortSignal | undefined,
  send: () => Promise<HttpResponse>,
): Promise<HttpResponse> => {
  const until = performance.now() + patience.submitMs
  for (let attempt = 0; ; attempt++) {
    let problem = `${http.url} does not give the adapter`
    try {
      const response = await send()
      if (!isTransient(response.status)) return response
      problem += ` (${response.status})`
    } catch (error) {
      if (!(error instanceof NoResponse)) throw error
      problem += `: ${error.message}`
    }
    if (performance.now() + backOffMs(attempt) > until) throw new InstarError('trainer_lost', problem)
    await wait(backOffMs(attempt), signal)
  }
}

const fetchArchive = async (
  http: TinkerHttp,
  { run, name, bytesMax }: Wanted,
  patience: Patience,
  signal?: AbortSignal,
): Promise<Uint8Array> => {
  const path = `/api/v1/training_runs/${encodeURIComponent(run)}/checkpoints/${encodeURIComponent(name)}/archive`
  let response = await patiently(http, patience, signal, () =>
    http.send({ method: 'GET', path, accept: '*/*', limitMs: http.limits.archiveMs, maxBytes: bytesMax, signal }),
  )
  let from = new URL(`${http.url}${path}`)
  for (let redirects = 0; response.status >= 300 && response.status < 400; redirects++) {
    if (redirects === REDIRECTS_MAX || response.location === null) throw bad(`${response.status} without an end`)
    const next = allowed(response.location, from, http.url)
    response = await patiently(http, patience, signal, () => http.fetch(next, bytesMax, signal))
    from = next
  }
  if (response.status === 200) return response.bytes
  throw missing(http, name, response)
}

const missing = (http: TinkerHttp, name: string, response: HttpResponse): InstarError =>
  response.status === 404
    ? new InstarError('trainer_state_lost', `${http.url} has no adapter ${name}`, { name })
    : refusal(http.url, `the adapter ${name}`, response.status, http.textOf(response))

/** Addresses of a machine's own services and of the metadata of clouds. */
const isLocal = (host: string): boolean =>
  host === 'localhost' || /^(\[::1?\]|\[fe80:)/.test(host) || (isIP(host) === 4 && /^(0|127|169\.254)\./.test(host))

/**
 * Where a redirect may lead. A server behind a proxy that ends TLS names itself with http: its own origin is used. Another
 * host is not asked without TLS if the server itself has it, nor is one of this machine unless the server is there.
 */
const allowed = (location: string, from: URL, serverUrl: string): URL => {
  const server = new URL(serverUrl)
  let url: URL
  try {
    url = new URL(location, from)
  } catch (error) {
    if (error instanceof TypeError) throw bad('the redirect leads to no address')
    throw error
  }
  if (server.protocol === 'https:' && url.protocol === 'http:' && url.hostname === server.hostname) {
    url.protocol = 'https:'
    url.port = server.port
  }
  if (url.protocol !== server.protocol && url.protocol !== 'https:') throw bad(`a redirect to ${url.protocol}//`)
  if (isLocal(url.hostname) && !isLocal(server.hostname)) throw bad(`a redirect to ${url.hostname}`)
  return url
}

const fetchFiles = async (
  http: TinkerHttp,
  { run, name, bytesMax }: Wanted,
  patience: Patience,
  signal?: AbortSignal,
): Promise<ArchiveFile[]> => {
  const path = `/api/v1/training_runs/${encodeURIComponent(run)}/checkpoints/external_weights/${encodeURIComponent(name)}/external_weights_urls`
  const listed = await patiently(http, patience, signal, () => http.send({ method: 'GET', path, signal }))
  if (listed.status !== 200) throw missing(http, name, listed)
  const urls = parseJsonObject(http.textOf(listed))?.['urls']
  if (!isJsonObject(urls)) throw bad('the server gives no addresses of its files')
  const files: ArchiveFile[] = []
  for (const file of FILES) {
    const [key, ...more] = Object.keys(urls).filter((one) => one.split('/').at(-1) === file)
    const url = key === undefined ? null : urls[key]
    if (typeof url !== 'string' || more.length > 0) throw bad(`not exactly one ${file}`)
    const target = allowed(url, new URL(`${http.url}${path}`), http.url)
    const limit = file === CONFIG_FILE ? CONFIG_BYTES_MAX : bytesMax
    const response = await patiently(http, patience, signal, () => http.fetch(target, limit, signal))
    if (response.status !== 200) throw bad(`${file}: the address answers ${response.status}`)
    files.push({ name: file, bytes: response.bytes })
  }
  return files
}
