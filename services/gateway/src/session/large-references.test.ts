/** A request of a few bytes that refers to a large one costs what the large one does. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { DIALECTS, type Reference } from '@instar/dialects'
import { startRig, type Rig } from '../../../../test/kit/gateway.ts'
import type { Script } from '../../../../test/kit/scripted-engine.ts'

const MIB = 1024 * 1024
const COUNT = 24

/** A gateway with one stored response whose request has 6 MiB. */
const start = async (t: TestContext, script: Script): Promise<{ rig: Rig; id: string }> => {
  const rig = await startRig({ script, settings: { bodiesLimit: 64 * MIB } })
  t.after(() => rig.stop())
  const body = JSON.stringify({ model: 'policy', input: 'The capital of France?', note: 'x'.repeat(6 * MIB) })
  const response = await rig.fetch('/v1/responses', { method: 'POST', body })
  return { rig, id: ((await response.json()) as { id: string }).id }
}

test('the memory of referenced requests is limited as that of bodies', async (t) => {
  const released = Promise.withResolvers<void>()
  let first = true
  const { rig, id } = await start(t, () => {
    const wait = !first
    first = false
    return { text: 'Paris.', before: () => (wait ? released.promise : undefined) }
  })
  let refused = 0
  const ask = async (): Promise<number> => {
    const body = JSON.stringify({ model: 'policy', previous_response_id: id, input: 'And of Spain?' })
    const response = await rig.fetch('/v1/responses', { method: 'POST', body })
    await response.arrayBuffer()
    if (response.status === 429) refused += 1
    // 12 MiB each, read and parsed: five fit; four, where two that were read find no room to be parsed.
    if (refused === COUNT - 5) released.resolve()
    return response.status
  }
  const statuses = await Promise.all(Array.from({ length: COUNT }, ask))
  const served = statuses.filter((status) => status === 200).length
  assert.ok(served === 5 || served === 4, `${served} served`)
  assert.equal(refused, COUNT - served)
  const metrics = await (await rig.fetch('/metrics')).text()
  assert.match(metrics, /^instar_request_body_bytes 0$/m)
})

test('other requests are served between readings of stored responses', async (t) => {
  const { rig, id } = await start(t, () => 'Paris.')
  let over = 0
  const read = async (): Promise<number> => {
    const response = await rig.fetch(`/v1/responses/${id}/input_items`)
    await response.arrayBuffer()
    over += 1
    return response.status
  }
  const reading = Array.from({ length: COUNT }, read)
  for (let i = 0; i < 8; i += 1) assert.equal((await rig.fetch('/health/live')).status, 200)
  assert.ok(over < COUNT, 'eight requests, one after the other, were served before the last reading')
  assert.deepEqual(new Set(await Promise.all(reading)), new Set([200]))
})

/** The tools of four requests, each answered once, and a request that refers to the items of all answers. */
const referring = async (t: TestContext, tools: readonly object[]): Promise<Response> => {
  const rig = await startRig({ script: () => 'Paris.', settings: { bodyLimit: MIB, bodiesLimit: 2 * MIB } })
  t.after(() => rig.stop())
  const items: object[] = []
  for (let i = 0; i < 4; i += 1) {
    const input = `Of which country is this the capital? ${i}`
    const response = await rig.fetch('/v1/responses', { json: { model: 'policy', input, tools } })
    const { output } = (await response.json()) as { output: { id: string }[] }
    items.push({ type: 'item_reference', id: output[0]!.id })
  }
  return rig.fetch('/v1/responses', {
    json: { model: 'policy', input: [...items, { role: 'user', content: 'And of Spain?' }] },
  })
}
const LARGE = 'x'.repeat(MIB / 2)

test('of a request whose item is referred to, nothing is kept but the names of its tools', async (t) => {
  const found: Reference[] = []
  const { resolved } = DIALECTS.responses
  t.mock.method(DIALECTS.responses, 'resolved', (...given: Parameters<typeof resolved>) => {
    found.push(...given[1].values())
    return resolved(...given)
  })
  const names = [{ type: 'web_search' }, { type: 'namespace', name: 'shop', tools: [{ type: 'custom', name: 'buy' }] }]
  const answer = await referring(t, [{ ...names[0], note: LARGE }, names[1]!])
  assert.equal(answer.status, 200)
  assert.deepEqual(
    found.map(({ body }) => body),
    Array.from({ length: 4 }, () => ({ tools: names })),
  )
})

test('what is kept of requests whose items are referred to is limited as bodies are', async (t) => {
  const answer = await referring(t, [{ type: 'web_search', name: LARGE }])
  const { error } = (await answer.json()) as { error: { code: string } }
  assert.deepEqual([answer.status, error.code], [413, 'body_too_large'])
})

test('a body with its references resolved has the limit of one as it came, and is held', async (t) => {
  const held: number[] = []
  const rig = await startRig({
    script: () => ({ text: 'Paris.', before: (i) => (i === 0 ? look() : undefined) }),
    settings: { bodyLimit: MIB },
  })
  const look = async (): Promise<void> => {
    const metrics = await (await rig.fetch('/metrics')).text()
    held.push(Number(/^instar_request_body_bytes (\S+)$/m.exec(metrics)![1]))
  }
  t.after(() => rig.stop())
  const post = (numbers: number, previous?: string): Promise<Response> =>
    rig.fetch('/v1/responses', {
      method: 'POST',
      body: `{"model": "policy", "input": "The capital of France?", ${previous === undefined ? '' : `"previous_response_id": "${previous}", `}"note": [${Array(numbers).fill('1e20').join()}]}`,
    })
  const { id } = (await (await post(1)).json()) as { id: string }
  // 5 bytes each as they come, 22 as they are written: 0.24 and 1.05 MiB.
  const refused = await post(50_000, id)
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
    [413, 'body_too_large'],
  )
  assert.equal((await post(40_000)).status, 200)
  assert.equal((await post(40_000, id)).status, 200)
  const [plain, resolved] = held.slice(-2)
  assert.ok(resolved! - plain! > 22 * 40_000 && resolved! - plain! < 22 * 40_000 + 8192, `${resolved! - plain!} more`)
})
