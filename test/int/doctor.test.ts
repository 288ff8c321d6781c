/** `instar doctor` on Kafka: a sound deployment, and one with each finding. */
import { encodeEvent, schemaTexts } from '@instar/events'
import { openKafkaLog } from '@instar/log/kafka/index'
import { topicSettings } from '@instar/log/kafka/topics'
import { startProjections, startPostgres } from '@instar/projections'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { records, smallHistory } from '../kit/projected-history.ts'
import { startKafka, type KafkaCluster } from '../kit/stack/kafka.ts'
import { startDatabase, startRegistry, type Database, type Registry } from '../kit/stack/registry.ts'
import { temporaryFolder } from '../kit/stack.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let kafka: KafkaCluster
let postgres: Database
let registry: Registry
let env: Record<string, string>
const schemas = schemaTexts()

before(async () => {
  folder = await temporaryFolder()
  const [cluster, database] = await Promise.all([
    startKafka({ folder: join(folder.path, 'kafka') }),
    startDatabase(join(folder.path, 'postgres')),
  ])
  kafka = cluster
  postgres = database
  registry = await startRegistry(join(folder.path, 'registry'), database)
  env = {
    INSTAR_LOG: `kafka://${kafka.brokers.join(',')}`,
    INSTAR_REGISTRY: registry.url,
    INSTAR_DATA: join(folder.path, 'data'),
    INSTAR_PORT: '9',
    DATABASE_URL: `postgres://postgres@127.0.0.1:${database.port}/instar`,
  }
})

after(async () => {
  await Promise.all([kafka.stop(), registry.kill()])
  await postgres.stop()
  await folder.remove()
})

type Check = { name: string; level: string; found: string; todo: string | null }

const doctor = async (): Promise<{ code: number; of(name: string): Check[] }> => {
  const { code, json, err } = await instar(['doctor', '--json'], env)
  assert.ok(json, err)
  const { ok, checks } = json as { ok: boolean; checks: Check[] }
  assert.equal(ok, code === 0)
  for (const { level, todo } of checks) assert.ok(level === 'ok' || level === 'unsure' || todo !== null)
  return { code, of: (name) => checks.filter((check) => check.name === name) }
}

const expectFinding = (checks: readonly Check[], level: string, found: RegExp, todo?: RegExp): void => {
  const check = checks.find((one) => found.test(one.found))
  assert.ok(check, JSON.stringify(checks))
  assert.equal(check.level, level, JSON.stringify(check))
  if (todo) assert.match(String(check.todo), todo)
}

const openLog = () => openKafkaLog({ brokers: kafka.brokers, clientId: 'test', registry: registry.url, schemas })

const withAdmin = async (work: (admin: Admin) => Promise<unknown>): Promise<void> => {
  const admin = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await work(admin).finally(() => admin.disconnect())
}

const putCompatibility = async (subject: string, compatibility: string): Promise<void> => {
  const response = await fetch(`${registry.url}/config/${subject}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
    body: JSON.stringify({ compatibility }),
  })
  assert.equal(response.status, 200, await response.text())
}

test(
  'before setup: the missing topics, schemas and tables are named, with setup as todo',
  { timeout: 120_000 },
  async () => {
    const { code, of } = await doctor()
    assert.equal(code, 1)
    expectFinding(of('Kafka'), 'ok', /^1 broker .*4\.0 or newer/)
    expectFinding(of('topics'), 'wrong', /^missing: turns, scores/, /instar setup/)
    expectFinding(
      of('registry'),
      'wrong',
      /does not hold the schemas TurnCaptured\.v4, TurnCaptured\.v3, TurnCaptured\.v2/,
      /instar setup/,
    )
    expectFinding(of('log'), 'unsure', /the log cannot be read/)
    expectFinding(of('PostgreSQL'), 'wrong', /postgres_failed.*"instar" does not exist/, /instar setup/)
    expectFinding(of('gateways'), 'unsure', /no gateway answers at http:\/\/127\.0\.0\.1:9/)
  },
)

test('a sound deployment has no finding above ok', { timeout: 120_000 }, async () => {
  assert.equal((await instar(['setup', '--json'], env)).code, 0)
  const log = await openLog()
  await log.append(records(smallHistory().events))
  const behind = await doctor()
  assert.equal(behind.code, 1)
  expectFinding(
    behind.of('projections'),
    'wrong',
    /records behind \(turns \d+, scores \d+, updates 6, weights 7\); the oldest was written \d+ days ago/,
    /Start the projections/,
  )

  const projections = startProjections({
    log,
    connection: (await startPostgres({ folder: env.INSTAR_DATA!, url: env.DATABASE_URL! })).owner,
  })
  await projections.caughtUp()
  await projections.stop()
  await log.close()
  const { code, of } = await doctor()
  assert.equal(code, 0, JSON.stringify([...of('clocks'), ...of('services')]))
  expectFinding(of('topics'), 'ok', /turns 8, scores 4/)
  expectFinding(of('settings'), 'ok', /kept forever/)
  expectFinding(of('registry'), 'ok', /each with the schemas of this build and BACKWARD_TRANSITIVE/)
  expectFinding(of('log'), 'ok', /^9 turns, .*updates \(chain complete\), .*weights \(chain complete\).* ignored$/)
  expectFinding(of('dead letters'), 'ok', /none/)
  expectFinding(of('migrations'), 'ok', /all \d+ migrations/)
  expectFinding(of('projections'), 'ok', /every record of the log/)
  expectFinding(
    of('clocks'),
    'ok',
    /within a second of this machine: PostgreSQL, the registry, the writer of the newest record/,
  )
  expectFinding(of('model'), 'ok', /context/)
  const { out } = await instar(['doctor'], env)
  assert.match(out, /^ok {4} settings {5}as `instar setup` sets them/m)
})

/** Ten years, so that the broker deletes no record during the test. */
const RETENTION = '315360000000'
const defaults = Object.entries(topicSettings(1)).map(([name, value]) => ({ name, value }))

test('a topic with another retention and a group with committed offsets', { timeout: 60_000 }, async () => {
  await withAdmin(async (admin) => {
    await admin.alterConfigs({
      validateOnly: false,
      resources: [
        {
          type: 2,
          name: 'scores',
          configEntries: [
            { name: 'retention.ms', value: RETENTION },
            { name: 'max.message.bytes', value: '8388608' },
          ],
        },
      ],
    })
  })
  const log = await openLog()
  const subscription = await log.subscribe({
    topics: ['scores'],
    group: 'other-group',
    from: 'start',
    handle: () => undefined,
  })
  await subscription.caughtUp()
  await subscription.commit([{ topic: 'scores', partition: 0, offset: 1 }])
  await subscription.stop()
  await log.close()
  const { code, of } = await doctor()
  assert.equal(code, 1)
  expectFinding(
    of('settings'),
    'wrong',
    /^scores: retention\.ms is 315360000000, should be -1: older records/,
    /kafka-configs\.sh --bootstrap-server 127\.0\.0\.1:\d+ --alter --entity-type topics --entity-name scores --add-config retention\.ms=-1/,
  )
  assert.ok(of('settings').every(({ found }) => found.startsWith('scores: ')))
  expectFinding(of('groups'), 'ok', /other-group scores: \d+ behind/)
  const { configs } = await readSettings()
  assert.equal(configs['retention.ms'], RETENTION, 'doctor changed a setting')
  await withAdmin((admin) =>
    admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: 'scores', configEntries: defaults }] }),
  )
  expectFinding((await doctor()).of('settings'), 'ok', /kept forever/)
})

const readSettings = async (): Promise<{ configs: Record<string, string> }> => {
  let configs: Record<string, string> = {}
  await withAdmin(async (admin) => {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: 'scores' }],
    })
    configs = Object.fromEntries(
      resources[0]!.configEntries.map(({ configName, configValue }) => [configName, configValue]),
    )
  })
  return { configs }
}

test('a subject with another compatibility: the command of the todo corrects it', { timeout: 60_000 }, async () => {
  await putCompatibility('TurnScored', 'NONE')
  expectFinding(
    (await doctor()).of('registry'),
    'wrong',
    /^TurnScored: compatibility is NONE, should be BACKWARD_TRANSITIVE/,
    /curl -X PUT .*\/config\/TurnScored$/,
  )
  await putCompatibility('TurnScored', 'BACKWARD_TRANSITIVE')
  expectFinding((await doctor()).of('registry'), 'ok', /each with the schemas of this build/)
})

test('dead letters: a value without a schema id, and a truncated record', { timeout: 60_000 }, async () => {
  const kafkajs = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING })
  const producer = kafkajs.producer()
  await producer.connect()
  const framed = (id: number, payload: Uint8Array): Buffer =>
    Buffer.concat([Buffer.from([0]), Buffer.from(new Uint32Array([id]).buffer).swap32(), payload])
  const good = encodeEvent({
    type: 'FeedbackGiven',
    id: 'f',
    session: 's',
    turn: null,
    value: 1,
    comment: null,
    subject: 'u',
    key: null,
    at: Date.now(),
  })
  const response = await fetch(`${registry.url}/subjects/FeedbackGiven/versions/1`)
  const { id } = (await response.json()) as { id: number }
  await producer.send({
    topic: 'turns',
    messages: [
      { key: 's', value: Buffer.from('hello'), partition: 1 },
      { key: 's', value: framed(id, Buffer.from(good.payload).subarray(0, 7)), partition: 1 },
    ],
  })
  await producer.disconnect()
  const log = await openLog()
  const subscription = await log.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => undefined })
  await subscription.caughtUp()
  await subscription.stop()
  await log.close()
  const { of } = await doctor()
  expectFinding(
    of('dead letters'),
    'note',
    /^turns: 1 record that cannot be decoded: 1@\d+ \(the value does not start/,
    /other than Instar/,
  )
  expectFinding(of('dead letters'), 'note', /does not match its schema FeedbackGiven\.v1/, /schema of the record type/)
  expectFinding(of('log'), 'ok', /chain complete/)
})

test(
  'an unknown schema id stops readers; after log set-aside, as the todo says, the log is read',
  { timeout: 60_000 },
  async () => {
    const kafkajs = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING })
    const producer = kafkajs.producer()
    await producer.connect()
    const [sent] = await producer.send({
      topic: 'turns',
      messages: [{ key: 's', value: Buffer.from([0, 0, 0x3d, 0x09, 0, 1]), partition: 1 }],
    })
    await producer.disconnect()
    expectFinding(
      (await doctor()).of('log'),
      'wrong',
      /unknown_schema: turns 1@\d+ has schema id 4000000/,
      /instar log set-aside/,
    )
    assert.equal((await instar(['log', 'set-aside', '--at', 'turns 1@99999', '--why', 'x'], env)).code, 1)
    const { code, json } = await instar(
      ['log', 'set-aside', '--at', `turns 1@${sent!.baseOffset}`, '--why', 'another program wrote it', '--json'],
      env,
    )
    assert.deepEqual(
      [code, json],
      [0, { topic: 'turns', partition: 1, offset: Number(sent!.baseOffset), why: 'another program wrote it' }],
    )
    const { of } = await doctor()
    expectFinding(of('log'), 'ok', /chain complete/)
    expectFinding(of('dead letters'), 'note', /another program wrote it/)
  },
)

test(
  'another registry than that of the log is refused; emptied and set up again, it is accepted',
  { timeout: 120_000 },
  async () => {
    await registry.forget()
    expectFinding((await doctor()).of('registry'), 'wrong', /has lost schemas of the log: 1 \(/, /instar setup/)
    for (const [i, schema] of Object.values(schemas).toReversed().entries()) {
      const body = JSON.stringify({ schema: JSON.stringify(JSON.parse(schema)) })
      await fetch(`${registry.url}/subjects/other${i}/versions`, {
        method: 'POST',
        headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
        body,
      })
    }
    expectFinding((await doctor()).of('registry'), 'wrong', /other schemas than the log under the ids/, /empty it/)
    const refusal = await instar(['setup'], env)
    assert.equal(refusal.code, 1)
    assert.match(refusal.err, /registry_differs/)
    await registry.forget()
    const { code, out, err } = await instar(['setup'], env)
    assert.equal(code, 0, out + err)
    assert.match(out, /the registry had lost \d+ schemas of the log: restored under the same ids/)
    expectFinding((await doctor()).of('registry'), 'ok', /each with the schemas of this build/)
  },
)

test('gateways: the status and the clock of a gateway', { timeout: 60_000 }, async () => {
  const server = createServer((request, response) => {
    response.writeHead(200, { date: new Date(Date.now() + 90_000).toUTCString() }).end(
      JSON.stringify({
        status: 'ready',
        problem: null,
        head: 2,
        serving: 1,
        frozen: true,
        log: { pending: 0, unreadable: 0 },
        path: request.url,
      }),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { code, json } = await instar(['doctor', '--json'], {
    ...env,
    INSTAR_PORT: String((server.address() as AddressInfo).port),
  })
  server.close()
  server.closeAllConnections()
  assert.equal(code, 1)
  const { checks } = json as { checks: Check[] }
  expectFinding(
    checks.filter(({ name }) => name === 'gateways'),
    'note',
    /serves version 1, learning is frozen.*the head is 2/,
    /loads the new version/,
  )
  expectFinding(
    checks.filter(({ name }) => name === 'clocks'),
    'wrong',
    /^the gateway at http:\/\/127\.0\.0\.1:\d+ is (8\d|90) s ahead of this machine$/,
    /NTP/,
  )
})

test('parts that are down: each is reported once with a todo, the other checks run', { timeout: 120_000 }, async () => {
  await registry.kill()
  const withoutRegistry = await doctor()
  assert.equal(withoutRegistry.code, 1)
  expectFinding(
    withoutRegistry.of('registry'),
    'wrong',
    /log_unavailable: the schema registry at .* does not respond/,
    /docker compose up -d registry/,
  )
  expectFinding(withoutRegistry.of('log'), 'unsure', /the log cannot be read/)
  expectFinding(withoutRegistry.of('migrations'), 'ok', /all/)
  await kafka.stop()
  await postgres.stop()
  const allDown = await doctor()
  expectFinding(allDown.of('Kafka'), 'wrong', /log_unavailable/, /advertised\.listeners/)
  expectFinding(allDown.of('topics'), 'unsure', /Kafka does not answer/)
  expectFinding(allDown.of('PostgreSQL'), 'wrong', /postgres_failed/, /DATABASE_URL/)
  expectFinding(allDown.of('clocks'), 'unsure', /no part that reports its time/)
})
