/** INSTAR_ARCHIVE, the place of an archive. */
import { deepEqual, equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events/errors'
import { placeWarning } from './archive-place.ts'
import { readSettings } from './settings.ts'

const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-central-1' }
const archiveOf = (place: string, env: Readonly<Record<string, string>> = KEYS) =>
  readSettings({ ...env, INSTAR_ARCHIVE: place }, '/here').archive

test('INSTAR_ARCHIVE is a folder, or a prefix of S3 with the credentials of AWS_*; empty variables are not set', () => {
  deepEqual(archiveOf('backup'), { kind: 'folder', folder: '/here/backup' })
  equal(archiveOf('', {}), null)
  const place = { bucket: 'bucket', prefix: 'a', region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'secret' }
  const empty = { AWS_ENDPOINT_URL_S3: '', AWS_SESSION_TOKEN: '' }
  deepEqual(archiveOf('s3://bucket/a', { ...KEYS, ...empty }), { kind: 's3', place: { ...place, endpoint: null } })
  const endpoint = 'http://store:9000'
  const there = archiveOf('s3://bucket/a', { ...KEYS, AWS_ENDPOINT_URL_S3: endpoint })!
  deepEqual(there, { kind: 's3', place: { ...place, endpoint } })
  equal(/plain text/.test(placeWarning(there)!), true)
  equal(placeWarning(archiveOf('s3://bucket/a')!), null)
})

test('a wrong INSTAR_ARCHIVE is refused by its name, without a credential', () => {
  const refused = (field: string, message: RegExp) => (error: unknown) => {
    equal(error instanceof InstarError && error.code === 'bad_request' && error.details['field'] === field, true)
    equal(message.test((error as Error).message) && !/secret/.test((error as Error).message), true)
    return true
  }
  const ours = /^INSTAR_ARCHIVE: /
  for (const place of ['ftp://me:secret@host/x', 's3://B', 's3://bucket/../x', 's3://me:secret@bucket/x'])
    throws(() => archiveOf(place), refused('INSTAR_ARCHIVE', ours), place)
  for (const url of ['store', 'http://me:secret@store'])
    throws(() => archiveOf('s3://bucket/x', { ...KEYS, AWS_ENDPOINT_URL: url }), refused('INSTAR_ARCHIVE', ours))
  for (const name of Object.keys(KEYS))
    throws(() => archiveOf('s3://bucket/x', { ...KEYS, [name]: '' }), refused(name, /An archive in S3 needs/))
})
