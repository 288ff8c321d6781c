/** Judgements by the base weights: which version, what is on the log, who may ask, what goes before them. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { openMemoryLog, type EventLog } from '@instar/log'
import { openModel, startServing } from '@instar/policy'
import { createMetrics, type Metrics } from '@instar/process'
import { createGateway, gatewayConfig } from '../app.ts'
import { tokenFor } from '../receive/core/keys.ts'
import { ADMIN_TOKEN, COMMANDING, eventsOf, Publisher, startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

const PATH = '/admin/judge/chat/completions'
const ASKED = { model: 'policy', messages: [USER('Judge this.')], temperature: 0, max_tokens: 8 }
type Judged = { model: string; choices: { message: { content: string }; finish_reason: string }[] }

const codeOf = async (response: Response): Promise<string | undefined> =>
  ((await response.json()) as { error?: { code: string } }).error?.code
const outcomes = async (metrics: Metrics): Promise<Record<string, number>> =>
  Object.fromEntries(
    [...(await metrics.text()).matchAll(/^instar_judgements_total\{outcome="(\w+)"\} (\d+)$/gm)].map(
      ([, outcome, count]) => [outcome, Number(count)],
    ),
  )
const waiting = async (metrics: Metrics): Promise<number> =>
  Number(/^instar_judgements_waiting (\d+)$/m.exec(await metrics.text())?.[1])

test('the base judges while a later version serves, and nothing of it is on the log', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const adapter = await publisher.publish(0)
  const metrics = createMetrics()
  const rig = await startRig({ log, ports: { metrics } })
  try {
    await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
    const before = (await eventsOf(log)).length
    for (const model of ['policy', 'policy@1', 'anything']) {
      const response = await rig.fetch(PATH, { json: { ...ASKED, model } })
      assert.equal(response.status, 200)
      assert.equal(response.headers.get('x-instar-turn-id'), null)
      const judged = (await response.json()) as Judged
      assert.equal(judged.model, 'policy@0')
      assert.equal(judged.choices[0]!.message.content, 'Hello there, how are you?')
    }
    assert.deepEqual(
      rig.engine.requests.map((request) => request.adapter),
      [adapter, null, null, null],
    )
    assert.equal((await eventsOf(log)).length, before)
    assert.deepEqual(await outcomes(metrics), { done: 3 })
  } finally {
    await rig.stop()
  }
})

test('a judgement waits while a request runs, and a request interrupts it; it then starts again', async () => {
  const running = gate()
  const judging = gate()
  const again = gate()
  let judged = 0
  const metrics = createMetrics()
  const rig = await startRig({
    ports: { metrics },
    script: (_, prompt) => ({
      text: prompt.includes('Judge') ? 'Good.' : 'Hello.',
      before: (token, signal) => {
        if (!prompt.includes('Judge')) return prompt.includes('First') ? running.passed : undefined
        if (token === 0) judged += 1
        if (judged > 1) return again.open()
        judging.open()
        return new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }))
      },
    }),
  })
  try {
    const ask = (text: string) =>
      rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER(text)] } })
    const first = ask('First')
    while (rig.engine.requests.length === 0) await rig.fetch('/health/live')
    const judgement = rig.fetch(PATH, { json: ASKED })
    while ((await waiting(metrics)) === 0) await rig.fetch('/health/live')
    assert.equal(judged, 0, 'it waits for the request')
    running.open()
    assert.equal((await first).status, 200)
    await judging.passed
    assert.equal((await ask('Second')).status, 200, 'the request is answered although the judgement never ends')
    assert.equal(rig.engine.aborted, 1)
    await again.passed
    assert.equal(((await (await judgement).json()) as Judged).choices[0]!.message.content, 'Good.')
    assert.equal(judged, 2)
    assert.deepEqual(await outcomes(metrics), { interrupted: 1, done: 1 })
  } finally {
    await rig.stop()
  }
})

test('where requests never pause, judgements and candidates run beside them one at a time, and none interrupts them', async () => {
  const [running, judging, answered] = [gate(), gate(), gate()]
  const metrics = createMetrics()
  const rig = await startRig({
    ports: { metrics },
    settings: { besideMs: 1, candidates: 3 },
    script: (_, prompt) => ({
      text: prompt.includes('Judge') ? 'Good.' : 'Hello.',
      before: () => {
        if (prompt.includes('First')) return running.passed
        if (!prompt.includes('Judge')) return undefined
        judging.open()
        return answered.passed
      },
    }),
  })
  const ask = (text: string) =>
    rig.fetch('/v1/chat/completions', { json: { model: 'policy', temperature: 1, messages: [USER(text)] } })
  const counted = async (line: string): Promise<void> => {
    while (!(await metrics.text()).includes(line)) await rig.fetch('/health/live')
  }
  try {
    const first = ask('First')
    while (rig.engine.requests.length === 0) await rig.fetch('/health/live')
    const judgement = rig.fetch(PATH, { json: ASKED })
    await judging.passed
    assert.equal((await ask('Second')).status, 200)
    assert.equal(rig.engine.requests.length, 3, 'candidates wait for the judgement')
    answered.open()
    assert.equal(((await (await judgement).json()) as Judged).choices[0]!.message.content, 'Good.')
    await counted('instar_background_candidates_total{outcome="sampled"} 2')
    await counted('instar_work_beside_requests_total{work="candidates"} 2')
    await counted('instar_work_beside_requests_total{work="judgement"} 1')
    assert.deepEqual([rig.engine.aborted, await outcomes(metrics)], [0, { done: 1 }])
    running.open()
    assert.equal((await first).status, 200)
  } finally {
    running.open()
    answered.open()
    await rig.stop()
  }
})

test('only an operator may ask: the admin token, or a key with the scope admin', async () => {
  const [plain, admin] = ['plain', 'admin'].map((id) => ({ id, token: tokenFor(id, randomBytes(24).toString('hex')) }))
  const keyOf = ({ id, token }: { id: string; token: string }, scopes?: string[]) => ({
    id,
    sha256: createHash('sha256').update(token).digest('hex'),
    ...(scopes ? { scopes: scopes as never } : {}),
  })
  const open = await startRig()
  const locked = await startRig({ settings: { keys: [keyOf(plain!), keyOf(admin!, ['admin'])] } })
  const statusOf = async (rig: Rig, headers: Record<string, string>): Promise<[number, string | undefined]> => {
    const response = await fetch(`${rig.url}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(ASKED),
    })
    return [response.status, await codeOf(response)]
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  try {
    assert.deepEqual(await statusOf(open, {}), [401, 'invalid_api_key'])
    assert.deepEqual(await statusOf(open, bearer('wrong')), [401, 'invalid_api_key'])
    assert.deepEqual(await statusOf(locked, bearer(plain!.token)), [403, 'missing_scope'])
    assert.deepEqual(await statusOf(locked, {}), [401, 'invalid_api_key'])
    assert.equal((await statusOf(open, { ...bearer(ADMIN_TOKEN), 'content-type': 'text/plain' }))[1], 'not_json')
    for (const [rig, token] of [
      [open, ADMIN_TOKEN],
      [locked, ADMIN_TOKEN],
      [locked, admin!.token],
    ] as const)
      assert.equal((await statusOf(rig, bearer(token)))[0], 200)
    assert.equal(open.engine.requests.length + locked.engine.requests.length, 3)
  } finally {
    await Promise.all([open.stop(), locked.stop()])
  }
})

test('beyond the limit a judgement is refused; one whose caller goes, and what waits at the stop, is given up', async () => {
  const running = gate()
  const metrics = createMetrics()
  const rig = await startRig({
    ports: { metrics },
    settings: { maxJudgements: 2 },
    script: () => ({ text: 'Hello.', before: () => running.passed }),
  })
  try {
    const first = rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })
    while (rig.engine.requests.length === 0) await rig.fetch('/health/live')
    const caller = new AbortController()
    const left = assert.rejects(rig.fetch(PATH, { json: ASKED, signal: caller.signal }))
    while ((await waiting(metrics)) < 1) await rig.fetch('/health/live')
    const kept = rig.fetch(PATH, { json: ASKED })
    while ((await waiting(metrics)) < 2) await rig.fetch('/health/live')
    const beyond = await rig.fetch(PATH, { json: ASKED })
    assert.deepEqual([beyond.status, await codeOf(beyond)], [429, 'overloaded'])
    caller.abort()
    await left
    while ((await waiting(metrics)) > 1) await rig.fetch('/health/live')
    const stopped = rig.stop()
    assert.equal(await codeOf(await kept), 'stopping')
    running.open()
    await first
    await stopped
    assert.equal(rig.engine.requests.length, 1)
    assert.deepEqual(await outcomes(metrics), { refused: 1, given_up: 2 })
  } finally {
    running.open()
    await rig.stop()
  }
})

test('streams, tools, several answers and prompts beyond the context are refused', async () => {
  const rig = await startRig()
  try {
    for (const [more, code] of [
      [{ stream: true }, 'bad_request'],
      [{ n: 2 }, 'bad_request'],
      [{ tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }, 'bad_request'],
      [{ messages: [] }, 'bad_request'],
      [{ messages: [USER('word '.repeat(9000))] }, 'context_length_exceeded'],
    ] as const)
      assert.equal(await codeOf(await rig.fetch(PATH, { json: { ...ASKED, ...more } })), code)
    assert.equal(rig.engine.requests.length, 0)
  } finally {
    await rig.stop()
  }
})

test('the real engine answers JSON of the schema', async () => {
  const folder = 'models/tiny'
  const log: EventLog = openMemoryLog()
  const model = await openModel(folder)
  const engine = await startServing({ model: folder, rows: 8, slots: 2, threads: 1 })
  const gateway = createGateway(
    { log, engine, model, now: Date.now, random: (bytes) => randomBytes(bytes) },
    gatewayConfig({ port: 0, logLevel: 'silent', adminToken: ADMIN_TOKEN }),
  )
  try {
    const { url } = await gateway.start()
    const schema = {
      type: 'object',
      properties: { reason: { type: 'string', maxLength: 20 }, verdict: { type: 'string', enum: ['good', 'bad'] } },
      required: ['reason', 'verdict'],
      additionalProperties: false,
    }
    const response = await fetch(`${url}${PATH}`, {
      method: 'POST',
      headers: COMMANDING,
      body: JSON.stringify({
        ...ASKED,
        max_tokens: 100,
        response_format: { type: 'json_schema', json_schema: { name: 'verdict', strict: true, schema } },
      }),
    })
    const [choice] = ((await response.json()) as Judged).choices
    assert.equal(choice!.finish_reason, 'stop')
    const said = JSON.parse(choice!.message.content) as Record<string, string>
    assert.deepEqual(Object.keys(said), ['reason', 'verdict'])
    assert.ok(['good', 'bad'].includes(said['verdict']!))
    assert.deepEqual(await eventsOf(log), [])
  } finally {
    await gateway.stop()
    await engine.close()
  }
})
