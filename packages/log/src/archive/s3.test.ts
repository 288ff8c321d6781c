/** Archives in an S3 server that checks signatures, and the answers of stores that are busy, away or differ. */
import { InstarError } from '@instar/events/errors'
import { TOPICS } from '@instar/events/flow'
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { readdirSync, rmSync, truncateSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { all, note, range } from '../../../../test/kit/event-log/harness.ts'
import { startS3, type S3Server } from '../../../../test/kit/s3-server.ts'
import { Archive, copyLog, openMemoryLog, openS3Store, writeArchive, type EventLog, type S3Place } from '../index.ts'

const SECRET = 'S3RVER'
const SIZES = { object: 4096, manifest: 32 << 10 }

const fill = async (log: EventLog, count: number): Promise<void> => {
  for (const topic of TOPICS)
    await log.append(
      range(count).map((i) => note(`k${i % 40}`, `${topic} ${i} ${'x'.repeat(200)}`, { topic, timestamp: 1000 + i })),
    )
}
const texts = async (log: Pick<EventLog, 'read'>) =>
  (await Promise.all(TOPICS.map((topic) => all(log.read(topic))))).map((records) =>
    records
      .toSorted((a, b) => a.offset - b.offset)
      .map(({ offset, key, payload, timestamp }) => [offset, key, timestamp, Buffer.from(payload).toString()]),
  )
const schemas = () => ({ 'Note.v1': '{"type":"record","name":"Note","fields":[{"name":"text","type":"bytes"}]}' })
const code = (expected: string, message: RegExp) => (error: unknown) => {
  ok(error instanceof InstarError && error.code === expected, String(error))
  match(error.message, message)
  return true
}

describe('an archive in an S3 server', () => {
  let server: S3Server
  before(async () => {
    server = await startS3()
  })
  after(() => server.stop())
  const place = (prefix: string, more: Partial<S3Place> = {}): S3Place => ({
    bucket: server.bucket,
    prefix,
    endpoint: server.endpoint,
    region: 'us-east-1',
    accessKeyId: 'S3RVER',
    secretAccessKey: SECRET,
    ...more,
  })

  test('is written, extended, checked and restored with every byte and offset', async () => {
    const log = openMemoryLog()
    await fill(log, 200)
    const to = openS3Store(place('a/b=1', { encryption: { algorithm: 'AES256' } }))
    const first = await writeArchive({ from: log, schemas, to, sizes: SIZES })
    equal(first.added.records, 200 * TOPICS.length)
    await fill(log, 20)
    equal((await writeArchive({ from: log, schemas, to, sizes: SIZES })).added.records, 20 * TOPICS.length)
    const archive = await Archive.open(to)
    deepEqual((await archive.check({ onProgress: () => undefined })).problems, [])
    const back = openMemoryLog()
    equal((await copyLog({ from: archive, to: back })).equal, true)
    deepEqual(await texts(back), await texts(log))
  })

  test('with an object missing or truncated names it', async () => {
    const log = openMemoryLog()
    await fill(log, 100)
    const to = openS3Store(place('damaged'))
    await writeArchive({ from: log, schemas, to, sizes: SIZES })
    const folder = join(server.folder, server.bucket, 'damaged', 'objects', 'blobs', '0')
    const [one, two] = [...new Set(readdirSync(folder).map((name) => name.split('._S3rver')[0]!))].toSorted()
    for (const name of readdirSync(folder).filter((each) => each.startsWith(one!))) rmSync(join(folder, name))
    truncateSync(
      join(
        folder,
        readdirSync(folder).find((name) => name.startsWith(two!) && name.endsWith('_object'))!,
      ),
      50,
    )
    const { problems } = await (await Archive.open(to)).check({ onProgress: () => undefined })
    deepEqual(
      problems.map(({ object, what }) => [object.split('/').at(-1), what.replace(/\d+ bytes/, 'n bytes')]),
      [
        [one, 'it is missing'],
        [two, 'it is truncated: 50 of n bytes'],
      ],
    )
  })

  test('with a wrong secret, or in a bucket that is not there, is refused with the code of the store and no secret', async () => {
    const refused = openS3Store(place('x', { secretAccessKey: 'not-the-secret' }))
    await rejects(refused.read('manifest.json', 100), (error: unknown) => {
      ok(!String((error as Error).stack).includes('not-the-secret'))
      return code(
        'archive_unavailable',
        /archives\/x: manifest.json: the store answers 403 SignatureDoesNotMatch/,
      )(error)
    })
    const nowhere = openS3Store(place('x', { bucket: 'nowhere' }))
    await rejects(nowhere.read('manifest.json', 100), code('archive_unavailable', /404 NoSuchBucket/))
  })

  test('an object beyond its size is not read whole', async () => {
    const store = openS3Store(place('long'))
    await store.write('x', Buffer.alloc(1 << 20))
    await rejects(store.read('x', 1000), code('archive_damaged', /x: it has more than 1000 bytes/))
  })
})

describe('a store', () => {
  const asked: IncomingMessage[] = []
  let answers: ((response: ServerResponse) => void)[] = []
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      asked.push(request)
      answers.shift()!(response)
    })
  })
  before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  after(() => void server.close())
  const store = (more: Partial<S3Place> = {}) =>
    openS3Store(
      {
        bucket: 'b',
        prefix: '',
        endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        region: 'eu-1',
        accessKeyId: 'id',
        secretAccessKey: 'key',
        ...more,
      },
      1,
    )
  const says =
    (status: number, body = '', headers = {}) =>
    (response: ServerResponse) =>
      void response.writeHead(status, { connection: 'close', ...headers }).end(body)
  const given = (...list: typeof answers) => {
    asked.length = 0
    answers = list
  }

  test('that is busy or breaks off is asked again', async () => {
    given(
      says(503, '<Code>SlowDown</Code>'),
      (response) => void response.socket!.destroy(),
      says(200, 'here', { etag: '"1"' }),
    )
    deepEqual(await store().read('x', 100), { bytes: Buffer.from('here'), tag: '"1"' })
    equal(asked.length, 3)
  })

  test('that stays busy is given up after six attempts, with its code', async () => {
    given(...range(6).map(() => says(503, '<Code>SlowDown</Code>')))
    await rejects(
      store().read('x', 100),
      code('archive_unavailable', /x: the store answers 503 SlowDown \(6 attempts\)/),
    )
  })

  test('gets the condition, the digest, the session and the encryption in signed headers', async () => {
    given(
      says(404),
      says(200, '', { etag: '"1"' }),
      says(200, 'old', { etag: '"1"' }),
      says(412),
      says(200, 'other', { etag: '"2"' }),
    )
    const to = store({ sessionToken: 'session', encryption: { algorithm: 'aws:kms', key: 'k1' } })
    equal(await to.replace('m', Buffer.from('new'), undefined), '"1"')
    const { headers, url } = asked[1]!
    deepEqual(
      [
        url,
        headers['if-none-match'],
        headers['x-amz-server-side-encryption'],
        headers['x-amz-server-side-encryption-aws-kms-key-id'],
      ],
      ['/b/m', '*', 'aws:kms', 'k1'],
    )
    equal(headers['x-amz-content-sha256'], '11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437')
    match(
      headers.authorization!,
      /SignedHeaders=[^,]*if-none-match[^,]*x-amz-security-token[^,]*x-amz-server-side-encryption/,
    )
    await rejects(to.replace('m', Buffer.from('x'), '"1"'), code('archive_differs', /m was changed by another process/))
    equal(asked[3]!.headers['if-match'], '"1"')
  })

  test('whose answer to a write was lost has our bytes when the write is tried again, which is a success', async () => {
    for (const status of [412, 409]) {
      given(
        says(200, 'old', { etag: '"1"' }),
        (response) => void response.socket!.destroy(),
        says(status),
        says(200, 'new', { etag: '"2"' }),
      )
      equal(await store().replace('m', Buffer.from('new'), '"1"'), '"2"')
      equal(asked.length, 4)
    }
  })

  test('that met another write at once is asked again, while the object is the one that it was, six times', async () => {
    const old = says(200, 'old', { etag: '"1"' })
    given(old, says(409), old, says(200, '', { etag: '"2"' }))
    equal(await store().replace('m', Buffer.from('new'), '"1"'), '"2"')
    equal(asked[3]!.headers['if-match'], '"1"')
    given(old, says(409), says(200, 'other', { etag: '"3"' }))
    await rejects(store().replace('m', Buffer.from('new'), '"1"'), code('archive_differs', /another process/))
    given(old, ...range(6).flatMap(() => [says(409, '<Code>ConditionalRequestConflict</Code>'), old]))
    await rejects(
      store().replace('m', Buffer.from('new'), '"1"'),
      code('archive_unavailable', /m: the store answers 409 ConditionalRequestConflict \(6 attempts\)/),
    )
    equal(answers.length, 0)
  })

  test('that cannot write on a condition is written without one, after a look', async () => {
    given(
      says(200, 'old', { etag: '"1"' }),
      says(501),
      says(200, '', { etag: '"2"' }),
      says(200, 'other', { etag: '"3"' }),
    )
    equal(await store().replace('m', Buffer.from('x'), '"1"'), '"2"')
    await rejects(store().replace('m', Buffer.from('x'), '"2"'), code('archive_differs', /another process/))
  })

  test('of another region is said to be one', async () => {
    given(says(301, '<Code>PermanentRedirect</Code>', { location: 'http://127.0.0.1:1/' }))
    await rejects(
      store().read('x', 100),
      code('archive_unavailable', /301 PermanentRedirect: the bucket is in another region/),
    )
  })
})
