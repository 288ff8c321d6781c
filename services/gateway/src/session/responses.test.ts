/**
 * Responses that are requested again: read from the log, by any gateway, for the key of the request; `store: false` and
 * `DELETE` are honoured.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeRecord, type Event, type ResponseDeleted } from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
import OpenAI from 'openai'
import { eventsOf, sha256, startRig, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'
import { MOST_REFERENCES } from './references.ts'

const CALL = '<think>\nSum.\n</think>\n\nI add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
const tools = [
  { type: 'function' as const, name: 'add', strict: false, parameters: { type: 'object', properties: {} } },
]
const QUICK = { settings: { tailWaitMs: 100 } }

test('a response is returned unchanged with its input items in pages, also by another gateway', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, script: () => CALL, ...QUICK }), await startRig({ log, ...QUICK })]
  try {
    const first = await a.client.responses.create({
      model: 'policy',
      instructions: 'Be exact.',
      input: 'What is the sum?',
      tools,
      temperature: 0.5,
      metadata: { run: '7' },
    })
    assert.deepEqual(await b.client.responses.retrieve(first.id), { ...first, output_text: 'I add.' })
    const second = await a.client.responses.create({
      model: 'policy',
      previous_response_id: first.id,
      tools,
      input: [
        { type: 'function_call_output', call_id: (first.output[2] as { call_id: string }).call_id, output: '3' },
        { role: 'user', content: [{ type: 'input_text', text: 'And?' }] },
      ],
    })
    const ascending = await b.client.responses.inputItems.list(second.id, { order: 'asc', limit: 100 })
    assert.deepEqual(
      ascending.data.map((item) => item.type),
      ['message', 'reasoning', 'message', 'function_call', 'function_call_output', 'message'],
    )
    assert.deepEqual(ascending.data[0], {
      id: ascending.data[0]!.id,
      type: 'message',
      role: 'user',
      status: 'completed',
      content: [{ type: 'input_text', text: 'What is the sum?' }],
    })
    assert.deepEqual(
      ascending.data.slice(1, 4).map(({ id }) => id),
      first.output.map(({ id }) => id),
    )
    const pages: string[] = []
    for await (const item of b.client.responses.inputItems.list(second.id, { limit: 2 })) pages.push(item.id!)
    assert.deepEqual(pages, ascending.data.map(({ id }) => id!).reverse())
    assert.equal(new Set(pages).size, 6)
    const counted = await b.client.responses.inputTokens.count({
      model: 'policy',
      instructions: 'Be exact.',
      input: 'What is the sum?',
      tools,
    })
    assert.deepEqual(counted, { object: 'response.input_tokens', input_tokens: first.usage!.input_tokens })
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('a response with store: false is not found by its id, by previous_response_id or by an item', async () => {
  const rig = await startRig(QUICK)
  try {
    const { id, output } = await rig.client.responses.create({ model: 'policy', input: 'Hi', store: false })
    await assert.rejects(rig.client.responses.retrieve(id), { status: 404, code: 'unknown_turn' })
    await assert.rejects(rig.client.responses.inputItems.list(id), { status: 404 })
    await assert.rejects(rig.client.responses.create({ model: 'policy', input: 'And?', previous_response_id: id }), {
      status: 400,
      param: 'previous_response_id',
    })
    await assert.rejects(
      rig.client.responses.create({
        model: 'policy',
        input: [
          { type: 'item_reference', id: output[0]!.id! },
          { role: 'user', content: 'And?' },
        ],
      }),
      { status: 400, param: 'input' },
    )
    // It is captured: x-instar-no-train is what excludes a turn from training.
    assert.deepEqual(
      (await turnsOf(rig.log)).map(({ trainable }) => trainable),
      [true],
    )
  } finally {
    await rig.stop()
  }
})

const deletedOn = async (log: EventLog): Promise<Event[]> =>
  (await eventsOf(log)).filter(({ type }) => type === 'ResponseDeleted')

test('a deleted response is not found on any gateway of the log, also after a restart, and its turn stays on the log', async () => {
  const log = openMemoryLog()
  const [a, b] = [await startRig({ log, ...QUICK }), await startRig({ log, ...QUICK })]
  try {
    const first = await a.client.responses.create({ model: 'policy', input: 'Hi' })
    const second = await a.client.responses.create({ model: 'policy', input: 'And?', previous_response_id: first.id })
    const before = await turnsOf(log)
    const said = await a.fetch(`/v1/responses/${first.id}`, { method: 'DELETE' })
    assert.deepEqual([said.status, await said.json()], [200, { id: first.id, object: 'response', deleted: true }])
    const c = await startRig({ log, ...QUICK })
    for (const { client } of [a, b, c]) {
      for (const gone of [
        client.responses.retrieve(first.id),
        client.responses.inputItems.list(first.id),
        client.responses.cancel(first.id),
        client.responses.delete(first.id),
      ])
        await assert.rejects(gone, { status: 404, code: 'unknown_turn' })
      await assert.rejects(
        client.responses.create({ model: 'policy', input: 'And?', previous_response_id: first.id }),
        { status: 400, code: 'previous_response_not_found', param: 'previous_response_id' },
      )
      await assert.rejects(
        client.responses.create({
          model: 'policy',
          input: [
            { type: 'item_reference', id: first.output[0]!.id! },
            { role: 'user', content: 'And?' },
          ],
        }),
        { status: 400, param: 'input' },
      )
      // Its continuation has its text.
      assert.equal((await client.responses.retrieve(second.id)).id, second.id)
    }
    await c.stop()
    assert.deepEqual(await turnsOf(log), before)
    assert.deepEqual(
      before.map(({ trainable }) => trainable),
      [true, true],
    )
    assert.equal((await deletedOn(log)).length, 1)
    await b.client.responses.delete(second.id)
    await assert.rejects(a.client.responses.retrieve(second.id), { status: 404 })
  } finally {
    await a.stop()
    await b.stop()
  }
})

test('two concurrent deletions of a response delete it, and a session that is no longer in memory is read with its deletions', async () => {
  const rig = await startRig({ settings: { tailWaitMs: 100, sessions: 1 } })
  const { client } = rig
  try {
    const { id } = await client.responses.create({ model: 'policy', input: 'Hi' })
    const deleted = await Promise.allSettled([client.responses.delete(id), client.responses.delete(id)])
    assert.ok(deleted.some(({ status }) => status === 'fulfilled'))
    const other = await client.responses.create({ model: 'policy', input: 'Something else' })
    await assert.rejects(client.responses.retrieve(id), { status: 404 })
    assert.equal((await client.responses.retrieve(other.id)).id, other.id)
    await assert.rejects(client.responses.retrieve(id), { status: 404 })
  } finally {
    await rig.stop()
  }
})

test('on a log with older readers a deletion is refused until the log announces that all readers know its record', async () => {
  const memory = openMemoryLog()
  const log: EventLog = new Proxy(memory, {
    get(target, name) {
      const value: unknown = name === 'sole' ? false : Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const rig = await startRig({ log, ...QUICK })
  try {
    const { id } = await rig.client.responses.create({ model: 'policy', input: 'Hi' })
    await assert.rejects(rig.client.responses.delete(id), { status: 409, code: 'not_announced' })
    assert.equal((await rig.client.responses.retrieve(id)).id, id)
    assert.deepEqual(await deletedOn(log), [])
    await log.append([encodeRecord({ type: 'ReadersUpgraded', versions: { ResponseDeleted: 1 }, who: 'setup', at: 1 })])
    await rig.client.responses.delete(id)
    await assert.rejects(rig.client.responses.retrieve(id), { status: 404 })
    const [event] = (await deletedOn(log)) as ResponseDeleted[]
    assert.deepEqual({ ...event, at: 0 }, { ...event!, turn: (await turnsOf(log))[0]!.turn, at: 0 })
  } finally {
    await rig.stop()
  }
})

test('a response of another key is not found, a cut one has its status, and unsupported operations are errors', async () => {
  const keys = ['one', 'two'].map((id) => ({ id, sha256: sha256(Buffer.from(`token-${id}`)) }))
  const rig = await startRig({
    settings: { keys, tailWaitMs: 100 },
    script: (_, prompt) =>
      prompt.includes('fail')
        ? {
            text: 'Never to the end',
            before: (i) => {
              if (i === 2) throw new Error('gone')
            },
          }
        : 'Hello.',
  })
  const as = (id: string, of: Rig = rig): OpenAI =>
    new OpenAI({ baseURL: `${of.url}/v1`, apiKey: `token-${id}`, maxRetries: 0 })
  try {
    const { id } = await as('one').responses.create({ model: 'policy', input: 'Hi' })
    assert.equal((await as('one').responses.retrieve(id)).status, 'completed')
    for (const other of [
      as('two').responses.retrieve(id),
      as('one').responses.retrieve('resp_nobody'),
      as('two').responses.cancel(id),
      as('two').responses.delete(id),
    ])
      await assert.rejects(other, { status: 404 })
    assert.equal((await as('one').responses.retrieve(id)).id, id)
    await assert.rejects(as('one').responses.cancel(id), { status: 400, message: /background/ })
    await assert.rejects(as('one').responses.retrieve(id, { stream: true }), { status: 400, param: 'stream' })
    for (const query of [{ limit: 0 }, { limit: 101 }, { order: 'up' }])
      await assert.rejects(as('one').responses.inputItems.list(id, query as never), { status: 400 })
    let cut = ''
    for await (const event of await as('one').responses.create({ model: 'policy', input: 'fail', stream: true }))
      if ('response' in event) cut = event.response.id
    assert.equal((await as('one').responses.retrieve(cut)).status, 'failed')
  } finally {
    await rig.stop()
  }
})

test('items that a request refers to count towards the size of its body, and their number has a limit', async () => {
  const said = 'All that there is to say. '.repeat(40)
  const rig = await startRig({ script: () => said, settings: { ...QUICK.settings, bodyLimit: 200_000 } })
  try {
    const { output } = await rig.client.responses.create({ model: 'policy', input: 'Hi' })
    const { id } = output[0]!
    const refer = (count: number, path = ''): Promise<Response> =>
      rig.fetch(`/v1/responses${path}`, {
        json: {
          model: 'policy',
          input: [...Array.from({ length: count }, () => ({ id })), { role: 'user', content: 'And?' }],
        },
      })
    const codeOf = async (response: Response): Promise<unknown> =>
      ((await response.json()) as { error?: { code: string } }).error?.code
    assert.equal(await codeOf(await refer(1)), undefined)
    const texts = Math.floor(200_000 / said.length)
    // Beside its text an item has less than 200 bytes of names.
    const fitting = Math.floor(199_000 / (said.length + 200))
    assert.equal(await codeOf(await refer(fitting)), 'context_length_exceeded')
    // Their texts alone fit, the body as it is written with them does not.
    assert.equal(await codeOf(await refer(texts)), 'body_too_large')
    for (const path of ['', '/input_tokens'])
      assert.equal(await codeOf(await refer(texts + 1, path)), 'body_too_large', path)
    const other = await startRig({ log: rig.log, ...QUICK })
    const many = await other.fetch('/v1/responses', {
      json: { model: 'policy', input: Array.from({ length: MOST_REFERENCES + 1 }, () => ({ id })) },
    })
    const { error } = (await many.json()) as { error: { code: string; message: string } }
    assert.deepEqual([many.status, error.code], [400, 'bad_request'])
    assert.match(error.message, /refers to 32769 items/)
    await other.stop()
  } finally {
    await rig.stop()
  }
})
