/** Where `instar archive` goes to, and that no credential is printed. */
import { InstarError } from '@instar/events/errors'
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { join } from 'node:path'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { after, before, describe, test } from 'node:test'
import { folder, instar } from '../../test/kit/cli.ts'
import { feedbackRecord } from '../../test/kit/feedback-record.ts'
import { startS3, type S3Server } from '../../test/kit/s3-server.ts'
import { parsePlace } from './archive-address.ts'
import { UsageError } from './command.ts'

const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-central-1' }
const parsed = (place: string, env: object = KEYS, values: { endpoint?: string; encrypt?: string } = {}) => {
  const lines: string[] = []
  const found = parsePlace(place, { cwd: '/', env: { ...env }, values, err: (line) => lines.push(line) })
  return { ...(found.kind === 's3' ? found.place : null)!, lines }
}

describe('the address of an archive', () => {
  test('has bucket, prefix, region and credentials of the usual variables', () => {
    deepEqual(parsed('s3://my-bucket/a/b=1/', { ...KEYS, AWS_SESSION_TOKEN: 's' }), {
      bucket: 'my-bucket',
      prefix: 'a/b=1',
      endpoint: null,
      region: 'eu-central-1',
      accessKeyId: 'id',
      secretAccessKey: 'secret',
      sessionToken: 's',
      lines: [],
    })
    equal(parsed('s3://my-bucket', { ...KEYS, AWS_ENDPOINT_URL: 'https://a' }).endpoint, 'https://a')
    equal(
      parsed('s3://my-bucket', { ...KEYS, AWS_ENDPOINT_URL: 'https://a', AWS_ENDPOINT_URL_S3: 'https://b' }).endpoint,
      'https://b',
    )
    equal(parsed('s3://my-bucket', KEYS, { endpoint: 'http://127.0.0.1:1' }).lines.length, 0)
    match(parsed('s3://my-bucket', KEYS, { endpoint: 'http://store:1' }).lines[0]!, /plain text/)
    deepEqual(parsed('s3://my-bucket', KEYS, { encrypt: 'AES256' }).encryption, { algorithm: 'AES256' })
    deepEqual(parsed('s3://my-bucket', KEYS, { encrypt: 'aws:kms' }).encryption, { algorithm: 'aws:kms' })
    deepEqual(parsed('s3://my-bucket', KEYS, { encrypt: 'aws:kms:arn:aws:kms:eu:1:key/x' }).encryption, {
      algorithm: 'aws:kms',
      key: 'arn:aws:kms:eu:1:key/x',
    })
  })

  test('that is none is refused, and so is a missing variable, by name', () => {
    for (const place of [
      's3:',
      's3://',
      's3://A',
      's3://b',
      's3://bucket/../x',
      's3://bucket//x',
      's3://bucket/a b',
      's3://bucket/x?y',
    ])
      throws(() => parsed(place), UsageError, place)
    for (const endpoint of ['store', 'ftp://x', 'https://user:pass@x', 'https://x?y=1'])
      throws(() => parsed('s3://bucket', KEYS, { endpoint }), UsageError, endpoint)
    for (const encrypt of ['', 'aes', 'aws:kms:', 'aws:kms:a b'])
      throws(() => parsed('s3://bucket', KEYS, { encrypt }), UsageError)
    for (const field of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION'])
      throws(
        () => parsed('s3://bucket', { ...KEYS, [field]: '' }),
        (error: unknown) =>
          error instanceof InstarError && error.code === 'bad_request' && error.details.field === field,
      )
  })
})

describe('instar archive in an S3 server', () => {
  let server: S3Server
  before(async () => {
    server = await startS3()
  })
  after(() => server.stop())

  test('archives, verifies, restores, and prints no credential', async () => {
    const [data, into] = [folder(), folder()]
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    await log.append(Array.from({ length: 30 }, (_, i) => feedbackRecord(`s${i % 5}`, i)))
    await log.close()
    const env = { AWS_ACCESS_KEY_ID: 'S3RVER', AWS_SECRET_ACCESS_KEY: 'S3RVER', AWS_ENDPOINT_URL: server.endpoint }
    const place = `s3://${server.bucket}/instar`
    const archived = await instar(['archive', '--to', place, '--encrypt', 'AES256', '--json'], {
      ...env,
      INSTAR_DATA: data,
    })
    equal(archived.code, 0, archived.err)
    equal((await instar(['archive', 'verify', '--from', place], env)).code, 0)
    const restored = await instar(['archive', 'restore', '--from', place, '--json'], { ...env, INSTAR_DATA: into })
    equal((restored.json as { copied: number }).copied, 30, restored.err)

    const wrong = { ...env, AWS_SECRET_ACCESS_KEY: 'not-the-secret' }
    const refused = await instar(['archive', '--to', place, '--json'], { ...wrong, INSTAR_DATA: data })
    equal(refused.code, 1)
    match(
      refused.err,
      /archive_unavailable: s3:\/\/archives\/instar: manifest.json: the store answers 403 SignatureDoesNotMatch/,
    )
    for (const { out, err } of [archived, restored, refused]) ok(!/S3RVER|not-the-secret/.test(out + err))
    const misplaced = await instar(['archive', '--to', folder(), '--encrypt', 'AES256'], { INSTAR_DATA: data })
    match(misplaced.err, /--encrypt is for an archive at s3:/)
  })
})
