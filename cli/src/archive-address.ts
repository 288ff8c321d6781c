/** The place of an archive, as named on the command line: a folder, or `s3://bucket/prefix`. */
import type { ArchiveStore, S3Place } from '@instar/log'
import { openArchivePlace, parseArchivePlace, placeWarning, type ArchivePlace } from '@instar/process'
import { UsageError } from './command.ts'
import type { Environment } from './config.ts'

type Given = {
  cwd: string
  /** The variables `AWS_*` of Amazon's own tools are used. */
  env: Environment
  values: { endpoint?: string | undefined; encrypt?: string | undefined }
  err(text: string): void
}

/**
 * `writing`: a folder is created and locked. Throws `UsageError`, `data_in_use`, `archive_unavailable`, and `bad_request`
 * where a variable is missing.
 */
export const openArchiveStore = (place: string, given: Given, writing: boolean): ArchiveStore =>
  openArchivePlace(parsePlace(place, given), writing)

/** Throws `UsageError`, `bad_request`. */
export const parsePlace = (place: string, { cwd, env, values, err }: Given): ArchivePlace => {
  const parsed = parseArchivePlace(place, {
    cwd,
    env,
    endpoint: values.endpoint,
    refuse(what) {
      throw new UsageError(what)
    },
  })
  if (parsed.kind === 'folder') {
    for (const name of ['endpoint', 'encrypt'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} is for an archive at s3://bucket/prefix`)
    return parsed
  }
  const warning = placeWarning(parsed)
  if (warning !== null) err(`${warning}\n`)
  const encryption = encryptionOf(values.encrypt)
  return encryption ? { kind: 's3', place: { ...parsed.place, encryption } } : parsed
}

const encryptionOf = (text: string | undefined): S3Place['encryption'] => {
  if (text === undefined) return undefined
  if (text === 'AES256') return { algorithm: 'AES256' }
  const kms = /^aws:kms(?::([\w:/-]{1,2048}))?$/.exec(text)
  if (!kms) throw new UsageError(`--encrypt ${text} is not AES256, aws:kms or aws:kms:KEY`)
  const [, key] = kms
  return { algorithm: 'aws:kms', ...(key === undefined ? {} : { key }) }
}
