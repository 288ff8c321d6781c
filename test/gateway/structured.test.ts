/** What an answer must be: the real engine on the model that ships, asked through the real client. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { readWritten } from '@instar/events'
import { createGateway, gatewayConfig, type Gateway } from '@instar/gateway'
import { openMemoryLog } from '@instar/log'
import { openModel, startServing, type ServingEngine } from '@instar/policy'
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI from 'openai'
import { turnOf, USER } from './harness.ts'

const MODEL = 'models/tiny'
const log = openMemoryLog()
let engine: ServingEngine
let gateway: Gateway
let url: string
let client: OpenAI

before(async () => {
  const model = await openModel(MODEL)
  engine = await startServing({ model: MODEL, rows: 8, slots: 2, threads: 1 })
  gateway = createGateway({ log, engine, model, now: Date.now, random: (bytes) => randomBytes(bytes) }, gatewayConfig({ port: 0, logLevel: 'silent' }))
  url = (await gateway.start()).url
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
})
after(async () => {
  await gateway.stop()
  await engine.close()
})

const PERSON = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 130 }, mood: { enum: ['glad', 'sad "or" so', 'é'] }, tags: { type: 'array', items: { type: 'string', maxLength: 6 }, maxItems: 2 } },
  required: ['name', 'age', 'mood', 'tags'],
  additionalProperties: false,
} as const
const valid = new Ajv2020({ strict: false }).compile(PERSON)
const format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: PERSON } } as const
const base = { model: 'policy', temperature: 1, max_tokens: 200 } as const

test('json_schema: every answer that ends is of the schema, beside answers without one, and is captured but not learned from', async () => {
  const asked = Array.from({ length: 12 }, async (_, seed) => {
    const free = seed % 3 === 0
    const { data, response } = await client.chat.completions.create({ ...base, seed, messages: [USER('Tell me of a person.')], ...(free ? {} : { response_format: format }) }).withResponse()
    const [choice] = data.choices
    const turn = await turnOf(log, response.headers.get('x-instar-turn-id'))
    assert.equal(turn.ids.length, turn.logprobs.length)
    if (free) assert.equal(turn.reason, null)
    else {
      assert.equal(choice!.finish_reason, 'stop')
      assert.ok(valid(JSON.parse(choice!.message.content!)), choice!.message.content!)
      assert.deepEqual([turn.trainable, turn.reason, turn.tokens], [false, 'constrained', 'exact'])
      assert.equal(readWritten(turn.text), choice!.message.content)
    }
  })
  await Promise.all(asked)
})

test('json_object: an object, streamed; what max_tokens cuts says so', async () => {
  let whole = 0
  for (let seed = 0; seed < 6; seed++) {
    const { choices: [choice] } = await client.chat.completions.stream({ ...base, seed, messages: [USER('Some JSON please.')], response_format: { type: 'json_object' } }).finalChatCompletion()
    if (choice!.finish_reason === 'length') continue
    const value: unknown = JSON.parse(choice!.message.content!)
    assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value))
    whole += 1
  }
  assert.ok(whole > 0)
  const cut = await client.chat.completions.create({ ...base, max_tokens: 3, messages: [USER('Some JSON please.')], response_format: format })
  assert.equal(cut.choices[0]!.finish_reason, 'length')
})
