import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { createMetrics, measuredLog } from '@instar/process'
import { Publisher, sha256, sse, startRig, turnThat, USER, type Rig } from '../../../../test/kit/gateway.ts'

/** `name{labels}` → value. */
const read = async (rig: Rig, init: RequestInit = {}): Promise<Map<string, number>> =>
  samplesOf(await (await rig.fetch('/metrics', init)).text())
const samplesOf = (text: string): Map<string, number> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line.startsWith('instar_'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
/**
 * Resolves when a metric has this value: a request counts when its connection is finished, which may be after the
 * client has read everything.
 */
const reaches = async (rig: Rig, metric: string, value: number): Promise<void> => {
  for (let tries = 0; (await read(rig)).get(metric) !== value; tries += 1)
    assert.ok(tries < 200, `${metric} is ${(await read(rig)).get(metric)}, not ${value}`)
}

test('requests, answers and records are counted', async () => {
  const metrics = createMetrics()
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const rig = await startRig({ log: measuredLog(log, metrics), ports: { metrics } })
  try {
    const body = { model: 'policy', messages: [USER('Hi')] }
    assert.equal((await rig.fetch('/v1/chat/completions', { json: { ...body, n: 2 } })).status, 200)
    const response = await rig.fetch('/v1/messages', {
      json: { ...body, max_tokens: 50, stream: true },
      headers: { 'x-session-id': 'one' },
    })
    for await (const _ of sse(response)) assert.equal(response.status, 200)
    await rig.fetch('/s/two/v1/responses', { json: { model: 'policy', input: 'Hi', temperature: 0 } })
    await rig.fetch('/v1/chat/completions', { json: {} })
    await rig.fetch('/v1/nothing')
    await reaches(rig, 'instar_requests_total{route="none",dialect="none",status="404"}', 1)
    const samples = await read(rig)
    const expected = {
      'instar_requests_total{route="/v1/chat/completions",dialect="chat",status="200"}': 1,
      'instar_requests_total{route="/v1/chat/completions",dialect="chat",status="400"}': 1,
      'instar_requests_total{route="/v1/messages",dialect="messages",status="200"}': 1,
      'instar_requests_total{route="/v1/responses",dialect="responses",status="200"}': 1,
      'instar_request_errors_total{code="bad_request"}': 1,
      'instar_request_errors_total{code="unknown_route"}': 1,
      'instar_turns_total{status="complete",kind="main",label_source="fingerprint",trainable="yes",reason="none"}': 2,
      'instar_turns_total{status="complete",kind="main",label_source="header",trainable="yes",reason="none"}': 1,
      'instar_turns_total{status="complete",kind="main",label_source="header",trainable="no",reason="greedy"}': 1,
      'instar_time_to_first_token_seconds_count{dialect="chat"}': 2,
      'instar_request_duration_seconds_count{dialect="messages"}': 1,
      instar_version_head: 1,
      instar_version_served: 1,
      instar_learning_frozen: 0,
      instar_adapters_loaded: 1,
      instar_ready: 1,
      instar_requests_running: 0,
      instar_answers_waiting: 0,
      instar_answers_lost_total: 0,
      instar_engine_requests_running: 0,
      'instar_log_append_duration_seconds_count{topic="turns"}': 4,
      'instar_log_append_waiting{topic="turns"}': 0,
      instar_sessions_known: 3,
      instar_turns_known: 4,
    }
    for (const [name, value] of Object.entries(expected))
      assert.equal(
        samples.get(name),
        value,
        `${name}\n${[...samples]
          .map(([key, one]) => `${key} ${one}`)
          .filter((line) => !line.includes('bucket'))
          .join('\n')}`,
      )
    // Of two candidates the prompt counts once and the tokens of both.
    const prompt = samples.get('instar_prompt_tokens_total{dialect="chat"}')!
    assert.ok(prompt > 0)
    assert.equal(samples.get('instar_prompt_tokens_total{dialect="responses"}'), prompt)
    assert.equal(
      samples.get('instar_generation_tokens_total{dialect="chat"}'),
      2 * samples.get('instar_generation_tokens_total{dialect="responses"}')!,
    )
  } finally {
    await rig.stop()
  }
})

test('a request whose client disconnects counts as 499, and its cut turn as aborted', async () => {
  const held = (token: number, signal: AbortSignal | undefined): Promise<void> =>
    token < 4 || signal?.aborted
      ? Promise.resolve()
      : new Promise((resolve) => {
          signal?.addEventListener('abort', () => resolve())
        })
  const rig = await startRig({ script: () => ({ text: 'a long answer that goes on and on', before: held }) })
  try {
    const leaving = new AbortController()
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', stream: true, messages: [USER('Hi')] },
      signal: leaving.signal,
    })
    const frames = sse(response)
    await frames.next()
    leaving.abort()
    await turnThat(rig.log, (turn) => turn.type === 'TurnAborted')
    await reaches(rig, 'instar_requests_total{route="/v1/chat/completions",dialect="chat",status="499"}', 1)
    await reaches(
      rig,
      'instar_turns_total{status="aborted",kind="main",label_source="fingerprint",trainable="no",reason="aborted"}',
      1,
    )
  } finally {
    await rig.stop()
  }
})

test('metrics hold no text or name of a person, and their number does not grow with requests', async () => {
  const rig = await startRig({ script: () => 'A secret answer.' })
  const WORD = 'zanzibar'
  const ask = async (i: number): Promise<void> => {
    const name = `${WORD}-${i}`
    await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER(`${name} wrote this`)], user: name, metadata: { user_id: name } },
      headers: { 'x-session-id': name, 'user-agent': name, 'x-opencode-session': name },
    })
    await rig.fetch(`/s/${name}/v1/chat/completions`, { json: { model: name, messages: [USER('Hi')] } })
    await rig.fetch(`/v1/${name}?q=${name}`, { method: i % 2 === 0 ? 'GET' : 'POST' })
    await rig.fetch(`/v1/models/${name}`)
    await rig.fetch(`/admin/${name}`, { method: 'POST' })
    await rig.fetch('/v1/feedback', { json: { session_id: name, value: 1, comment: name } })
  }
  try {
    for (let i = 0; i < 3; i += 1) await ask(i)
    const before = await (await rig.fetch('/metrics')).text()
    for (let i = 3; i < 40; i += 1) await ask(i)
    const after = await (await rig.fetch('/metrics')).text()
    assert.equal(after.includes(WORD), false)
    assert.equal(after.includes('secret'), false)
    assert.deepEqual(
      [...samplesOf(after).keys()].filter((name) => !samplesOf(before).has(name) && !name.includes('route="/metrics"')),
      [],
    )
  } finally {
    await rig.stop()
  }
})

test('metrics require an admin key with keys, and a local client without keys', async () => {
  const keys = [
    { id: 'anna', sha256: sha256(Buffer.from('secret-a')) },
    { id: 'ops', sha256: sha256(Buffer.from('secret-o')), scopes: ['admin' as const] },
  ]
  const keyed = await startRig({ settings: { keys } })
  const open = await startRig()
  try {
    const status = async (key?: string): Promise<number> =>
      (await keyed.fetch('/metrics', key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } })).status
    assert.deepEqual([await status(), await status('secret-a'), await status('secret-o')], [401, 403, 200])
    const response = await open.fetch('/metrics')
    assert.equal(response.status, 200)
    assert.match(response.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/)
    const { hostname, port } = new URL(open.url)
    const request = get({ hostname, port, path: '/metrics', headers: { host: 'evil.example' } })
    const [foreign] = (await once(request, 'response')) as [{ statusCode: number; resume(): void }]
    foreign.resume()
    assert.equal(foreign.statusCode, 403)
  } finally {
    await Promise.all([keyed.stop(), open.stop()])
  }
})
