/**
 * Brokers that require TLS, a client certificate and a user, and a registry behind HTTPS with a user: all clients of
 * them.
 */
import { encodeEvent } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { openKafka, readSettings } from '@instar/process'
import { schemaTexts } from '@instar/events'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { all } from '../kit/event-log/harness.ts'
import { makeCertificates, type Certificates } from '../kit/stack/certificates.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startKafka } from '../kit/stack/kafka.ts'
import { freePort } from '../kit/stack/ready.ts'
import { startDatabase, startRegistry } from '../kit/stack/registry.ts'
import { temporaryFolder } from '../kit/stack.ts'

const PASSWORD = 'correct horse'
const SAID = `Basic ${Buffer.from(`instar:${PASSWORD}`).toString('base64')}`

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let pems: Certificates
let front: Server
let env: Record<string, string>

/** A proxy in front of the registry, with HTTPS and HTTP Basic. */
const inFront = async (registry: string): Promise<Server> => {
  const server = createServer(
    { key: readFileSync(pems.brokerKey), cert: readFileSync(pems.brokerCert) },
    (asked, answer) => {
      if (asked.headers.authorization !== SAID) return void answer.writeHead(401).end()
      const { host: _, authorization: __, ...headers } = asked.headers
      asked.pipe(
        request(new URL(asked.url!, registry), { method: asked.method!, headers }, (said) =>
          said.pipe(answer.writeHead(said.statusCode!, said.headers)),
        ),
      )
    },
  ).listen(0, 'localhost')
  await once(server, 'listening')
  return server
}

before(async () => {
  folder = await temporaryFolder()
  pems = await makeCertificates(join(folder.path, 'pem'))
  const port = await freePort()
  const secret = join(folder.path, 'password')
  await writeFile(secret, `${PASSWORD}\n`)
  const [, registry] = await Promise.all([
    startKafka({
      folder: join(folder.path, 'kafka'),
      secure: { port, ca: pems.ca, broker: pems.broker, password: PASSWORD },
    }),
    startDatabase(join(folder.path, 'postgres')).then((database) =>
      startRegistry(join(folder.path, 'registry'), database),
    ),
  ])
  front = await inFront(registry.url)
  env = {
    INSTAR_LOG: `kafka://localhost:${port}`,
    INSTAR_DATA: join(folder.path, 'data'),
    DATABASE_URL: '',
    INSTAR_PORT: '9',
    INSTAR_KAFKA_CA: pems.ca,
    INSTAR_KAFKA_CERT: pems.clientCert,
    INSTAR_KAFKA_KEY: pems.clientKey,
    INSTAR_KAFKA_SASL_MECHANISM: 'SCRAM-SHA-512',
    INSTAR_KAFKA_USERNAME: 'instar',
    INSTAR_KAFKA_PASSWORD_FILE: secret,
    INSTAR_REGISTRY: `https://localhost:${(front.address() as AddressInfo).port}/apis/ccompat/v7`,
    INSTAR_REGISTRY_USERNAME: 'instar',
    INSTAR_REGISTRY_PASSWORD_FILE: secret,
    INSTAR_REGISTRY_CA: pems.ca,
  }
})
after(async () => {
  front.close()
  front.closeAllConnections()
  await killAll()
  await folder.remove()
})

const feedback = (i: number) =>
  encodeEvent({
    type: 'FeedbackGiven',
    id: `f${i}`,
    session: `s${i}`,
    turn: null,
    value: 1,
    comment: null,
    subject: 'u',
    key: null,
    at: 1000 + i,
  })

test(
  'setup, producer, reader, groups, doctor and log copy work with SCRAM-SHA-512 and a client certificate',
  { timeout: 180_000 },
  async () => {
    const done = await instar(['setup', '--json'], env)
    assert.equal(done.code, 0, done.err)
    const log = await openKafka(readSettings(env, '/'), { name: 'secure test' })
    await log.append([1, 2, 3].map(feedback))
    assert.equal((await all(log.read('turns'))).length, 3)
    let seen = 0
    const subscription = await log.subscribe({
      topics: ['turns'],
      group: 'g',
      from: 'start',
      handle: (records) => void (seen += records.length),
    })
    await subscription.caughtUp()
    await subscription.commit([{ topic: 'turns', partition: 0, offset: 0 }])
    const given = Promise.withResolvers<void>()
    const share = await log.joinGroup('g', 'turns', given.resolve)
    await given.promise
    assert.ok([0, 1, 2, 3, 4, 5, 6, 7].every((partition) => share.owns(partition)))
    await log.close()
    assert.equal(seen, 3)

    const looked = await instar(['doctor', '--json'], env)
    const { checks } = looked.json as { checks: { name: string; level: string; found: string }[] }
    const of = (name: string) => checks.filter((check) => check.name === name).map(({ level }) => level)
    assert.deepEqual(
      ['Kafka', 'topics', 'settings', 'registry', 'log', 'groups'].map((name) => of(name)),
      Array.from({ length: 6 }, () => ['ok']),
      JSON.stringify(checks),
    )

    // Three turns, and the announcements of `setup`.
    const copied = await instar(
      ['log', 'copy', '--from', env['INSTAR_LOG']!, '--to', `embedded:${join(folder.path, 'copy')}`, '--json'],
      env,
    )
    assert.deepEqual([copied.code, (copied.json as { copied: number }).copied], [0, 4], copied.err)
    const embedded = await openEmbeddedLog({ folder: join(folder.path, 'source', 'log'), schemas: schemaTexts() })
    await embedded.append([1, 2, 3, 4].map(feedback))
    await embedded.close()
    const back = await instar(
      ['log', 'copy', '--from', `embedded:${join(folder.path, 'source')}`, '--to', env['INSTAR_LOG']!, '--json'],
      env,
    )
    assert.deepEqual([back.code, (back.json as { copied: number }).copied], [0, 1], back.err)
  },
)

for (const mechanism of ['plain', 'scram-sha-256']) {
  test(`the log opens with ${mechanism}`, { timeout: 60_000 }, async () => {
    const log = await openKafka(
      readSettings(
        {
          ...env,
          INSTAR_KAFKA_SASL_MECHANISM: mechanism,
          INSTAR_KAFKA_PASSWORD_FILE: '',
          INSTAR_KAFKA_PASSWORD: PASSWORD,
        },
        '/',
      ),
      { name: 'secure test' },
    )
    assert.ok((await all(log.read('turns'))).length >= 3)
    await log.close()
  })
}

const refusals: Record<string, [Record<string, string>, string]> = {
  'a wrong password': [{ INSTAR_KAFKA_PASSWORD_FILE: '', INSTAR_KAFKA_PASSWORD: 'wrong' }, 'kafka_refused'],
  "no authority that signed the brokers' certificates": [
    { INSTAR_KAFKA_CA: '', INSTAR_KAFKA_SSL: '1' },
    'kafka_refused',
  ],
  'no certificate of the client': [{ INSTAR_KAFKA_CERT: '', INSTAR_KAFKA_KEY: '' }, 'kafka_refused'],
  'a certificate that is for another name': [{ INSTAR_LOG: '127.0.0.1' }, 'kafka_refused'],
  'a wrong password of the registry': [
    { INSTAR_REGISTRY_PASSWORD_FILE: '', INSTAR_REGISTRY_PASSWORD: 'wrong' },
    'registry_refused',
  ],
}
for (const [what, [other, code]] of Object.entries(refusals)) {
  test(`${what} is refused with ${code}, and no message has the password`, { timeout: 60_000 }, async () => {
    const changed = {
      ...env,
      ...other,
      ...(other['INSTAR_LOG'] ? { INSTAR_LOG: env['INSTAR_LOG']!.replace('localhost', '127.0.0.1') } : {}),
    }
    const begin = performance.now()
    const { code: status, err } = await instar(['setup'], changed)
    assert.equal(status, 1)
    assert.ok(err.includes(code), err)
    assert.ok(!err.includes(PASSWORD) && !err.includes('wrong'), err)
    assert.ok(performance.now() - begin < 30_000)
  })
}
