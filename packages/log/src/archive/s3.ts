/**
 * An archive in an object store with the S3 API: GET and PUT of single objects, signed by AWS Signature Version 4 with the
 * content's SHA-256, so that the store checks what it received. Objects are too small to need several parts.
 */
import { InstarError } from '@instar/events/errors'
import { AwsV4Signer } from 'aws4fetch'
import { Backoff } from '../backoff.ts'
import { damaged, MAX_MANIFEST_BYTES, sha256 } from './manifest.ts'
import type { ArchiveStore } from './store.ts'

export type S3Place = {
  bucket: string
  /** Without a slash at either end; may be empty. */
  prefix: string
  /** The URL of the store; null: Amazon's for the region. */
  endpoint: string | null
  region: string
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
  /** Server-side encryption of what is written. `key`: of the key management service; absent: its default. */
  encryption?: { algorithm: 'AES256' | 'aws:kms'; key?: string }
}

/** Attempts of one request: for some 6 s while the store is busy or away. */
const ATTEMPTS = 6
const FIRST_WAIT_MS = 200
/** For one request, with its body. */
const TIMEOUT_MS = 120_000
const MAX_ERROR_BYTES = 8192
/** Of a store that cannot write on a condition. */
const NOT_IMPLEMENTED = 501

type Answer = { status: number; headers: Headers; body: Buffer }
type Asked = { method: 'GET' | 'PUT'; name: string; body?: Buffer; headers?: Record<string, string>; maxBytes: number }

/** `firstWaitMs`: before the second attempt of a request; doubled up to 3 s for the others. */
export const openS3Store = (place: S3Place, firstWaitMs = FIRST_WAIT_MS): ArchiveStore => {
  const address = `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`
  const root = rootOf(place)
  const keys = new Map<string, ArrayBuffer>()

  const unavailable = (name: string, why: string, cause?: unknown): InstarError =>
    new InstarError('archive_unavailable', `${address}: ${name}: ${why}`, { archive: address, object: name }, { cause })

  const send = async ({ method, name, body, headers = {}, maxBytes }: Asked, signal?: AbortSignal): Promise<Answer> => {
    const signed = await new AwsV4Signer({
      method,
      url: `${root}/${name}`,
      headers: { ...headers, 'x-amz-content-sha256': sha256(body ?? '') },
      accessKeyId: place.accessKeyId,
      secretAccessKey: place.secretAccessKey,
      ...(place.sessionToken === undefined ? {} : { sessionToken: place.sessionToken }),
      service: 's3',
      region: place.region,
      cache: keys,
    }).sign()
    const timeout = AbortSignal.timeout(TIMEOUT_MS)
    const response = await fetch(signed.url, {
      method,
      headers: signed.headers,
      redirect: 'manual',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      ...(body ? { body: new Uint8Array(body) } : {}),
    })
    const limit = response.ok ? maxBytes : MAX_ERROR_BYTES
    return { status: response.status, headers: response.headers, body: await bodyOf(response, limit) }
  }

  /** Tries again while the store is busy or cannot be reached. Throws `archive_unavailable`, `aborted`. */
  const ask = async (asked: Asked, signal?: AbortSignal): Promise<Answer> => {
    const backoff = new Backoff({ firstMs: firstWaitMs, longestMs: 3000 })
    for (let attempt = 1; ; attempt++) {
      let why: string
      try {
        const answer = await send(asked, signal)
        if (answer.status !== 429 && (answer.status < 500 || answer.status === NOT_IMPLEMENTED)) return answer
        why = refusal(answer)
      } catch (cause) {
        if (signal?.aborted) throw new InstarError('aborted', 'The command was stopped; run it again to continue.')
        if (cause instanceof TooLong) throw damaged(address, asked.name, `it has more than ${asked.maxBytes} bytes`)
        const reason = (cause as Error).cause ?? cause
        why =
          reason instanceof Error
            ? reason.message || ((reason as NodeJS.ErrnoException).code ?? reason.name)
            : 'no answer'
      }
      if (attempt === ATTEMPTS) throw unavailable(asked.name, `${why} (${ATTEMPTS} attempts)`)
      await backoff.wait(signal ?? new AbortController().signal)
    }
  }

  const read: ArchiveStore['read'] = async (name, maxBytes, signal) => {
    const answer = await ask({ method: 'GET', name, maxBytes }, signal)
    if (answer.status === 200) return { bytes: answer.body, tag: answer.headers.get('etag') ?? sha256(answer.body) }
    if (answer.status === 404 && codeOf(answer) !== 'NoSuchBucket') return undefined
    throw unavailable(name, refusal(answer))
  }

  const put = async (
    name: string,
    body: Buffer,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<Answer> =>
    ask(
      { method: 'PUT', name, body, headers: { ...encryptionOf(place), ...headers }, maxBytes: MAX_ERROR_BYTES },
      signal,
    )

  return {
    address,
    read,
    async write(name, bytes, signal) {
      const answer = await put(name, bytes, {}, signal)
      if (answer.status !== 200) throw unavailable(name, refusal(answer))
    },
    async replace(name, bytes, tag, signal) {
      const differs = (): InstarError =>
        new InstarError('archive_differs', `${address}: ${name} was changed by another process`, { archive: address })
      if ((await read(name, MAX_MANIFEST_BYTES, signal))?.tag !== tag) throw differs()
      const condition: Record<string, string> = tag === undefined ? { 'if-none-match': '*' } : { 'if-match': tag }
      const backoff = new Backoff({ firstMs: firstWaitMs, longestMs: 3000 })
      let answer = await put(name, bytes, condition, signal)
      if (answer.status === NOT_IMPLEMENTED) answer = await put(name, bytes, {}, signal)
      for (let attempt = 1; answer.status === 412 || answer.status === 409; attempt++) {
        // The answer to an earlier attempt may have been lost after the store had done it: then the object is ours.
        const found = await read(name, MAX_MANIFEST_BYTES, signal)
        if (found?.bytes.equals(bytes)) return found.tag
        if (answer.status === 412 || found?.tag !== tag) throw differs()
        if (attempt === ATTEMPTS) throw unavailable(name, `${refusal(answer)} (${ATTEMPTS} attempts)`)
        await backoff.wait(signal ?? new AbortController().signal)
        answer = await put(name, bytes, condition, signal)
      }
      if (answer.status !== 200) throw unavailable(name, refusal(answer))
      return answer.headers.get('etag') ?? sha256(bytes)
    },
    async close() {
      keys.clear()
    },
  }
}

/** The URL of the prefix. The bucket is in the path, except at Amazon, whose certificates cover names without a dot. */
const rootOf = ({ bucket, prefix, endpoint, region }: S3Place): string => {
  const inPath = endpoint !== null || bucket.includes('.')
  const base = endpoint?.replace(/\/+$/, '') ?? `https://${inPath ? '' : `${bucket}.`}s3.${region}.amazonaws.com`
  return [base, ...(inPath ? [bucket] : []), ...(prefix === '' ? [] : [prefix])].join('/')
}

const encryptionOf = ({ encryption }: S3Place): Record<string, string> =>
  encryption
    ? {
        'x-amz-server-side-encryption': encryption.algorithm,
        ...(encryption.key === undefined ? {} : { 'x-amz-server-side-encryption-aws-kms-key-id': encryption.key }),
      }
    : {}

class TooLong extends Error {}

const bodyOf = async (response: Response, limit: number): Promise<Buffer> => {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of response.body ?? []) {
    length += part.length
    if (length > limit) {
      if (response.ok) throw new TooLong()
      break
    }
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** The code in the XML of an error, such as `AccessDenied`. */
const codeOf = ({ body }: Answer): string | undefined => /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(body.toString())?.[1]

const refusal = (answer: Answer): string => {
  const code = codeOf(answer)
  const moved = answer.status >= 300 && answer.status < 400 ? ': the bucket is in another region' : ''
  return `the store answers ${answer.status}${code === undefined ? '' : ` ${code}`}${moved}`
}
