/** `/openapi.json`: it names every path, and its schemas match requests and responses. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { openMemoryLog } from '@instar/log'
import { OPERATIONS } from './operations.ts'
import { Publisher, startRig, USER } from '../../../../../test/kit/gateway.ts'

type Schema = Record<string, unknown>
type Media = { content?: Record<string, { schema: Schema }> }
type Operation = {
  operationId: string
  tags: string[]
  summary: string
  description?: string
  security: unknown[]
  parameters?: { name: string; in: string }[]
  requestBody?: Media & { required?: boolean }
  responses: Record<string, Media & { $ref?: string }>
}
type Document = {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, Schema>>
}

const METHODS = ['get', 'post', 'head', 'delete']
const log = openMemoryLog()
const publisher = new Publisher(log)
await publisher.start()
await publisher.publish(0)
const rig = await startRig({ log, ports: { promote: () => Promise.resolve({ accepted: false, reason: 'kl_base' }) } })
after(() => rig.stop())
const document = (await (await rig.fetch('/openapi.json')).json()) as Document
const operations = Object.entries(document.paths).flatMap(([path, entry]) =>
  METHODS.flatMap((method) => (entry[method] ? [{ path, method, operation: entry[method] }] : [])),
)

const ajv = new Ajv2020({ strict: false })
const inPlace = (schema: Schema): Schema =>
  JSON.parse(JSON.stringify(schema).replaceAll('#/components/schemas/', '#/$defs/')) as Schema
const validator = (schema: Schema) => ajv.compile({ ...inPlace(schema), $defs: document.components['schemas'] })

test('the document describes exactly the paths of the gateway', () => {
  assert.match(document.openapi, /^3\.1\.\d+$/)
  const named = operations
    .filter(({ operation }) => !operation.tags.includes('other'))
    .map(({ path, method }) => `${method.toUpperCase()} ${path}`)
  assert.deepEqual(named.toSorted(), Object.keys(OPERATIONS).toSorted())
  // Paths that are not described are those of other trainers, which begin differently.
  for (const { path, operation } of operations)
    if (operation.tags.includes('other')) assert.doesNotMatch(path, /^\/(v1|admin|health\/|metrics|openapi)/, path)
})

test('the document has valid references, unique ids, parameters and schemas', () => {
  const text = JSON.stringify(document)
  for (const [, group, name] of text.matchAll(/"\$ref":"#\/components\/(\w+)\/([\w-]+)"/g))
    assert.ok(document.components[group!]?.[name!], `${group} ${name}`)
  assert.equal(new Set(operations.map(({ operation }) => operation.operationId)).size, operations.length)
  for (const { path, operation } of operations) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    assert.deepEqual(
      operation.parameters?.filter((one) => one.in === 'path').map(({ name }) => name),
      named,
      path,
    )
    assert.ok(operation.responses['200'] && operation.responses['default'], path)
    for (const { content = {} } of [operation.requestBody ?? {}, ...Object.values(operation.responses)])
      for (const { schema } of Object.values(content)) validator(schema)
  }
})

test('each described path exists', async () => {
  for (const { path, method } of operations) {
    const response = await rig.fetch(path.replace(/\{\w+\}/g, 'abcdef0123456789').replace('*', 'app.ts'), {
      method: method.toUpperCase(),
      ...(method === 'post' ? { body: '{}' } : {}),
    })
    if (response.status === 404)
      assert.notEqual(
        ((await response.json()) as { error: { code: string } }).error.code,
        'unknown_route',
        `${method} ${path}`,
      )
    else await response.body?.cancel()
  }
})

test('replies match their schemas', async () => {
  const answer = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
  await answer.text()
  const turn = answer.headers.get('x-instar-turn-id')!
  const session = answer.headers.get('x-instar-session-id')!
  const calls: [path: string, real: string, json?: unknown][] = [
    ['/v1/models', '/v1/models'],
    ['/v1/models/{id}', '/v1/models/policy'],
    ['/v1/models/{id}', '/s/a/v1/models/policy@1'],
    ['/health/live', '/health/live'],
    ['/health/ready', '/health/ready'],
    ['/admin/status', '/admin/status'],
    ['/admin/requests', '/admin/requests'],
    ['/v1/messages/count_tokens', '/v1/messages/count_tokens', { messages: [USER('Hi')] }],
    ['/v1/feedback', '/v1/feedback', { turn_id: turn, value: true }],
    ['/v1/sessions/{id}/close', `/v1/sessions/${session}/close`, {}],
    ['/admin/rollback', '/admin/rollback', { version: 0, keepLearning: true }],
    ['/admin/freeze', '/admin/freeze', {}],
    ['/admin/thaw', '/admin/thaw', {}],
    ['/admin/served', '/admin/served', {}],
    ['/admin/promote', '/admin/promote', { branch: 'x' }],
  ]
  for (const [path, real, json] of calls) {
    const response = await rig.fetch(real, json === undefined ? {} : { json })
    const body: unknown = await response.json()
    assert.equal(response.status, 200, `${real}: ${JSON.stringify(body)}`)
    const validate = validator(
      document.paths[path]![json === undefined ? 'get' : 'post']!.responses['200']!.content!['application/json']!
        .schema,
    )
    assert.ok(validate(body), `${real}: ${JSON.stringify(body)} ${JSON.stringify(validate.errors)}`)
  }
  for (const [path, json] of [
    ['/v1/chat/completions', {}],
    ['/v1/messages', {}],
    ['/v1/nothing', {}],
  ] as const) {
    const body: unknown = await (await rig.fetch(path, { json })).json()
    assert.ok(validator(document.components['schemas']!['Fault']!)(body), JSON.stringify(body))
  }
})

/** The same in every run. */
const dice = (): (() => number) => {
  let state = 12
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) / 0x800000
  }
}

/** Values that a field may have. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  turn_id: ['one.0123', 'one.0123', null, 5],
  session_id: ['one', 'one', null, 5],
  value: [true, 0.5, -1, 1, 2, -1.5, 'good', null],
  comment: ['Nice.', null, 3],
  user: ['anna', null, []],
  version: [0, 0, 1, 1, 1, 0.5, -1, '1', null, 1e10],
  keepLearning: [true, false, true, null, 'yes'],
  request: [null, null, null, 5, 'r'],
  who: ['me', 'you', 'me', null, {}],
  why: ['so', '', null, 'so', false],
  branch: ['b', null, 4],
  name: ['b', null, 4],
}
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  '/v1/feedback': ['turn_id', 'session_id', 'value', 'comment', 'user'],
  '/admin/rollback': ['version', 'keepLearning', 'request', 'who', 'why'],
  '/admin/thaw': ['request', 'who', 'why'],
  '/admin/freeze': ['request', 'who', 'why'],
  '/admin/promote': ['branch', 'name'],
  '/admin/served': ['why'],
}

for (const [path, names] of Object.entries(FIELDS)) {
  test(`${path} accepts exactly the requests that its schema accepts`, async () => {
    const random = dice()
    const validate = validator(document.paths[path]!['post']!.requestBody!.content!['application/json']!.schema)
    const seen = { accepted: 0, refused: 0 }
    for (let i = 0; i < 150; i += 1) {
      const body = Object.fromEntries(
        names
          .filter(() => random() < 0.75)
          .map((name) => [name, VALUES[name]![Math.floor(random() * VALUES[name]!.length)]]),
      )
      const response = await rig.fetch(path, { json: { ...body, of_tomorrow: {} } })
      const { error } = (await response.json()) as { error?: { code: string } }
      assert.equal(
        validate(body),
        error?.code !== 'bad_request',
        `${JSON.stringify(body)} ${JSON.stringify(error)} ${JSON.stringify(validate.errors)}`,
      )
      seen[validate(body) ? 'accepted' : 'refused'] += 1
    }
    assert.ok(seen.accepted > 9 && (seen.refused > 9 || path === '/admin/served'), JSON.stringify(seen))
  })
}
