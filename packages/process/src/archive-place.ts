/** The place of an archive, as a setting or the command line names it: a folder, or `s3://bucket/prefix`. */
import { InstarError } from '@instar/events/errors'
import type { S3Place } from '@instar/log'
import { resolve } from 'node:path'

export type ArchivePlace = { kind: 'folder'; folder: string } | { kind: 's3'; place: S3Place }

type Given = {
  cwd: string
  /** The variables `AWS_*` of Amazon's own tools are used. */
  env: Readonly<Record<string, string | undefined>>
  /** The URL of the S3 store; default: that of the variables. */
  endpoint?: string | undefined
  /** Throws the error for a text that is no place. */
  refuse(what: string): never
}

/** Throws as `refuse`, and `bad_request` where a variable is missing. */
export const parseArchivePlace = (place: string, given: Given): ArchivePlace => {
  if (place.startsWith('s3:')) return { kind: 's3', place: parseS3(place, given) }
  if (place === '' || /^[a-z]+:\/\//.test(place))
    given.refuse(`${withoutUser(place)} is not the place of an archive (a folder, or s3://bucket/prefix)`)
  return { kind: 'folder', folder: resolve(given.cwd, place) }
}

const parseS3 = (place: string, { refuse, ...given }: Given): S3Place => {
  // An empty variable counts as not set.
  const env = Object.fromEntries(Object.entries(given.env).filter(([, value]) => value !== ''))
  const [, bucket, path = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(place) ?? []
  const prefix = path.replace(/\/$/, '')
  if (bucket === undefined || !/^([\w=-][\w.=-]*(\/[\w=-][\w.=-]*)*)?$/.test(prefix))
    return refuse(
      `${withoutUser(place)} is not s3://bucket/prefix (a prefix has letters, digits, - _ = . and single slashes; no part of it begins with a dot)`,
    )
  const required = (name: string, ...more: string[]): string => {
    const value = [name, ...more].map((each) => env[each]).find((each) => each)
    if (value) return value
    throw new InstarError('bad_request', `An archive in S3 needs ${[name, ...more].join(' or ')}.`, { field: name })
  }
  const endpoint = given.endpoint ?? env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL ?? null
  if (endpoint !== null && !isEndpoint(endpoint)) refuse('the endpoint is not http(s)://host[:port] without a user')
  const region =
    endpoint === null
      ? required('AWS_REGION', 'AWS_DEFAULT_REGION')
      : (env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1')
  if (!/^[a-z0-9-]{1,64}$/.test(region))
    throw new InstarError('bad_request', 'AWS_REGION is not a region.', { field: 'AWS_REGION' })
  return {
    bucket,
    prefix,
    endpoint,
    region,
    accessKeyId: required('AWS_ACCESS_KEY_ID'),
    secretAccessKey: required('AWS_SECRET_ACCESS_KEY'),
    ...(env.AWS_SESSION_TOKEN ? { sessionToken: env.AWS_SESSION_TOKEN } : {}),
  }
}

/** A user in a URL may be one of credentials, and messages show it. */
const withoutUser = (place: string): string => place.replace(/\/\/[^/]*@/, '//…@')

const isEndpoint = (endpoint: string): boolean => {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  return (
    url !== undefined && /^https?:$/.test(url.protocol) && !(url.username || url.password || url.search || url.hash)
  )
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** A warning about the place; null: none. */
export const placeWarning = (place: ArchivePlace): string | null => {
  const url = place.kind === 's3' && place.place.endpoint !== null ? new URL(place.place.endpoint) : null
  return url?.protocol === 'http:' && !LOOPBACK.test(url.hostname)
    ? 'the endpoint is http: prompts and answers cross the network as plain text'
    : null
}
