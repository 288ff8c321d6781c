/** The client with a real gateway, and its compiled package, which has no dependency but `fetch`. */
import { createClient, answerOf, InstarClientError } from './index.ts'
import type { SessionClosed } from '@instar/events'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { deepEqual, equal, match, ok, rejects, throws } from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import OpenAI from 'openai'
import {
  eventsOf,
  feedbackOf,
  Publisher,
  startRig,
  turnsOf,
  USER,
  type Rig,
  type RigOptions,
} from '../../../test/kit/gateway.ts'

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  let answers = 0
  const rig = await startRig({ script: () => `Answer number ${(answers += 1)}.`, ...options })
  t.after(() => rig.stop())
  return rig
}

const closings = async (rig: Rig): Promise<SessionClosed[]> =>
  (await eventsOf(rig.log)).filter((event) => event.type === 'SessionClosed')

const key = (id: string, scopes: string[]) => ({
  token: `sk-${id}`,
  key: { id, sha256: createHash('sha256').update(`sk-${id}`).digest('hex'), scopes },
})

test('headers and URL identify the same session; feedback and close apply to it', async (t) => {
  const rig = await rigOf(t)
  const client = createClient({ baseURL: `${rig.url}/v1/` })
  const session = client.session('desk 1')
  const byHeader = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: session.apiKey, defaultHeaders: session.headers })
  const { data, response } = await byHeader.chat.completions
    .create({ model: 'policy', messages: [USER('Hi')] })
    .withResponse()
  const byUrl = new OpenAI({ baseURL: session.baseURL, apiKey: session.apiKey })
  await byUrl.chat.completions.create({
    model: 'policy',
    messages: [USER('Hi'), data.choices[0]!.message, USER('More')],
  })
  const turns = await turnsOf(rig.log)
  deepEqual(answerOf(response), {
    version: 0,
    turn: turns[0]!.turn,
    turns: [turns[0]!.turn],
    session: turns[0]!.session,
  })
  deepEqual(
    turns.map(({ session: id }) => id),
    [turns[0]!.session, turns[0]!.session],
  )

  const result = await session.feedback(true, { comment: 'good' })
  deepEqual([result.session, result.turn, result.value], [turns[0]!.session, null, 1])
  equal((await client.feedback({ turn: turns[0]!.turn, value: -0.5 })).turn, turns[0]!.turn)
  // The first turn has a next state, the second has none yet.
  deepEqual(await session.close(), { session: turns[0]!.session, closed: [turns[1]!.turn] })
  deepEqual(
    (await closings(rig)).map(({ open, why }) => [open, why]),
    [[[turns[1]!.turn], 'client']],
  )
  deepEqual(
    (await client.close(turns[0]!.session)).closed,
    [],
    'the session id of the gateway is accepted, and no turn is open',
  )
  equal((await closings(rig)).length, 1)
  await rejects(
    client.close('unknown'),
    (error: unknown) =>
      error instanceof InstarClientError && error.status === 404 && error.code === 'unknown_turn' && !error.retryable,
  )
  ok(client.session().id !== client.session().id)
  throws(() => client.session('Zürich'), TypeError)
})

test('a session ends with a reward or is aborted, once', async (t) => {
  const rig = await rigOf(t)
  const client = createClient({ baseURL: rig.url })
  const converse = async (id: string): Promise<void> => {
    const { headers } = client.session(id)
    const openai = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: 'none', defaultHeaders: headers })
    const say = { headers: { 'x-instar-task-id': 'sort' } }
    await openai.chat.completions.create({ model: 'policy', messages: [USER('Hi')] }, say)
  }
  const endings = async () =>
    (await closings(rig)).map(({ open, outcome, task, discarded }) => [open.length, outcome, task, discarded])
  await converse('won')
  equal((await client.session('won').close({ reward: true })).closed.length, 1)
  deepEqual((await client.close('won', { reward: 1 })).closed, [], 'the same reward again changes nothing')
  await rejects(client.close('won', { reward: -1 }), { status: 400, code: 'bad_request', retryable: false })
  await converse('count')
  await client.close('count', { reward: -0.5, task: 'count' })
  await converse('aborted')
  await rejects(client.close('aborted', { reward: 1, discarded: true }), { status: 400, code: 'bad_request' })
  await client.close('aborted', { discarded: true })
  deepEqual(await endings(), [
    [1, 1, null, false],
    [1, -0.5, 'count', false],
    [1, null, null, true],
  ])
})

test('versions, status and ready return the state of the gateway', async (t) => {
  const rig = await rigOf(t)
  const client = createClient({ baseURL: rig.url })
  deepEqual(await client.versions(), [{ version: 0, model: 'policy@0', parent: null, head: true, publishedAt: 0 }])
  const publisher = new Publisher(rig.log)
  await publisher.start()
  await publisher.publish(0)
  while ((await client.status()).serving !== 1) await new Promise(setImmediate)
  const versions = await client.versions()
  deepEqual(
    versions.map(({ version, parent, head }) => [version, parent, head]),
    [
      [1, 0, true],
      [0, null, false],
    ],
  )
  ok(versions[0]!.publishedAt > 1e12)
  equal(await client.ready(), true)
  equal(await createClient({ baseURL: 'http://127.0.0.1:9' }).ready(), false)
})

test('a key has access to its own sessions, within its scopes', async (t) => {
  const [ann, bob, talker] = [
    key('ann', ['inference', 'feedback']),
    key('bob', ['inference', 'feedback']),
    key('talker', ['inference']),
  ]
  const rig = await rigOf(t, { settings: { keys: [ann.key, bob.key, talker.key] as never } })
  const clientOf = ({ token }: { token: string }) => createClient({ baseURL: rig.url, apiKey: token })
  const session = clientOf(ann).session('desk')
  await fetch(`${rig.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...session.headers },
    body: JSON.stringify({ messages: [USER('Hi')] }),
  })
  await rejects(clientOf(bob).close('desk'), { status: 404 })
  await rejects(clientOf(bob).close('ann_desk'), { status: 404 })
  await rejects(clientOf(talker).close('desk'), { status: 403, code: 'missing_scope' })
  await rejects(createClient({ baseURL: rig.url }).close('desk'), { status: 401, code: 'invalid_api_key' })
  equal((await session.close()).closed.length, 1)
})

test('a request is retried after the time that the response asks for, and feedback counts once', async (t) => {
  const rig = await rigOf(t)
  await rig.fetch('/v1/chat/completions', { json: { messages: [USER('Hi')] }, headers: { 'x-session-id': 'desk' } })
  const attempts: number[] = []
  let dropped = 0
  const busy = (headers: Record<string, string>): Response =>
    new Response(JSON.stringify({ error: { message: 'later', code: 'overloaded' } }), { status: 429, headers })
  const client = createClient({
    baseURL: rig.url,
    fetch: async (...args) => {
      attempts.push(performance.now())
      if (attempts.length === 1) return busy({ 'retry-after-ms': '120', 'retry-after': '9' })
      const response = await fetch(...args)
      // The gateway receives the request, the client loses the response.
      if ((dropped += 1) === 1) throw new TypeError('terminated')
      return response
    },
  })
  const result = await client.feedback({ session: 'desk', value: true })
  equal(attempts.length, 3)
  ok(attempts[1]! - attempts[0]! >= 119, `waited ${attempts[1]! - attempts[0]!} ms`)
  deepEqual(
    (await feedbackOf(rig.log)).map(({ id }) => id),
    [result.id],
    'a repeat is not written to the log',
  )

  const answering = (response: () => Response, more: object = {}) => {
    let calls = 0
    return {
      client: createClient({ baseURL: rig.url, fetch: () => Promise.resolve(((calls += 1), response())), ...more }),
      calls: () => calls,
    }
  }
  const long = answering(() => busy({ 'retry-after': '3600' }))
  await rejects(long.client.close('x'), { code: 'overloaded', retryable: true })
  const never = answering(() => busy({ 'x-should-retry': 'false' }))
  await rejects(never.client.close('x'), { retryable: false })
  const wrong = answering(() => new Response('<html>', { status: 404 }))
  await rejects(wrong.client.close('x'), { code: 'unknown', status: 404 })
  const dated = answering(() => busy({ 'retry-after': new Date(Date.now() - 1000).toUTCString() }), { maxRetries: 2 })
  await rejects(dated.client.close('x'), { code: 'overloaded' })
  deepEqual([long.calls(), never.calls(), wrong.calls(), dated.calls()], [1, 1, 1, 3])
  const reason = new Error('enough')
  await rejects(
    answering(() => busy({ 'retry-after-ms': '5000' })).client.close('x', { signal: AbortSignal.abort(reason) }),
    reason,
  )
})

test('the compiled package runs and imports no other package', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-client-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const require = createRequire(import.meta.url)
  const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  const built = spawnSync(
    process.execPath,
    [tsc, '-p', new URL('../tsconfig.json', import.meta.url).pathname, '--outDir', folder],
    { encoding: 'utf8' },
  )
  equal(built.status, 0, built.stdout)
  for (const name of readdirSync(folder)) {
    for (const [, specifier] of readFileSync(join(folder, name), 'utf8').matchAll(/from ['"]([^'"]+)['"]/g))
      match(specifier!, /^\.\/\w+\.(js|ts)$/, name)
  }
  const { createClient: create } = (await import(join(folder, 'index.js'))) as { createClient: typeof createClient }
  const rig = await rigOf(t)
  equal((await create({ baseURL: rig.url }).versions())[0]!.version, 0)
  match(readFileSync(join(folder, 'index.d.ts'), 'utf8'), /Session/)
})
