/** The place of an archive, as named on the command line: a folder, or `s3://bucket/prefix`. */
import { InstarError } from '@instar/events/errors'
import { openFolderStore, openS3Store, type ArchiveStore, type S3Place } from '@instar/log'
import { resolve } from 'node:path'
import { UsageError } from './command.ts'
import type { Environment } from './config.ts'

type Given = {
  cwd: string
  /** The variables `AWS_*` of Amazon's own tools are used. */
  env: Environment
  values: { endpoint?: string | undefined; encrypt?: string | undefined }
  err(text: string): void
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * `writing`: a folder is created and locked. Throws `UsageError`, `data_in_use`, `archive_unavailable`, and `bad_request`
 * where a variable is missing.
 */
export const openArchiveStore = (place: string, given: Given, writing: boolean): ArchiveStore => {
  const { cwd, values } = given
  if (place.startsWith('s3:')) return openS3Store(parseS3(place, given))
  for (const name of ['endpoint', 'encrypt'] as const)
    if (values[name] !== undefined) throw new UsageError(`--${name} is for an archive at s3://bucket/prefix`)
  if (place === '' || /^[a-z]+:\/\//.test(place))
    throw new UsageError(`${place} is not the place of an archive (a folder, or s3://bucket/prefix)`)
  return openFolderStore(resolve(cwd, place), writing)
}

/** Throws `UsageError`, `bad_request`. */
export const parseS3 = (place: string, { env, values, err }: Given): S3Place => {
  const [, bucket, path = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(place) ?? []
  const prefix = path.replace(/\/$/, '')
  if (bucket === undefined || !/^([\w=-][\w.=-]*(\/[\w=-][\w.=-]*)*)?$/.test(prefix))
    throw new UsageError(
      `${place} is not s3://bucket/prefix (a prefix has letters, digits, - _ = . and single slashes; no part of it begins with a dot)`,
    )
  const required = (name: string, ...more: string[]): string => {
    const value = [name, ...more].map((each) => env[each]).find((each) => each)
    if (value) return value
    throw new InstarError('bad_request', `An archive in S3 needs ${[name, ...more].join(' or ')}.`, { field: name })
  }
  const endpoint = values.endpoint ?? env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL ?? null
  if (endpoint !== null) checkEndpoint(endpoint, err)
  const region =
    endpoint === null
      ? required('AWS_REGION', 'AWS_DEFAULT_REGION')
      : (env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1')
  if (!/^[a-z0-9-]{1,64}$/.test(region))
    throw new InstarError('bad_request', 'AWS_REGION is not a region.', { field: 'AWS_REGION' })
  const encryption = encryptionOf(values.encrypt)
  return {
    bucket,
    prefix,
    endpoint,
    region,
    accessKeyId: required('AWS_ACCESS_KEY_ID'),
    secretAccessKey: required('AWS_SECRET_ACCESS_KEY'),
    ...(env.AWS_SESSION_TOKEN ? { sessionToken: env.AWS_SESSION_TOKEN } : {}),
    ...(encryption ? { encryption } : {}),
  }
}

const checkEndpoint = (endpoint: string, err: (text: string) => void): void => {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw new UsageError('the endpoint is not http(s)://host[:port] without a user')
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname))
    err(`the endpoint is http: prompts and answers cross the network as plain text\n`)
}

const encryptionOf = (text: string | undefined): S3Place['encryption'] => {
  if (text === undefined) return undefined
  if (text === 'AES256') return { algorithm: 'AES256' }
  const kms = /^aws:kms(?::([\w:/-]{1,2048}))?$/.exec(text)
  if (!kms) throw new UsageError(`--encrypt ${text} is not AES256, aws:kms or aws:kms:KEY`)
  const [, key] = kms
  return { algorithm: 'aws:kms', ...(key === undefined ? {} : { key }) }
}
