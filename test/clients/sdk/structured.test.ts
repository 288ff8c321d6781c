/** Structured outputs and forced calls through each library, answered by the real engine on the shipped model. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, OpenAIProvider, Runner } from '@openai/agents'
import { generateText, Output } from 'ai'
import OpenAI from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { turnsOf } from '../../kit/gateway.ts'
import { startTiny, type Tiny } from '../../kit/tiny.ts'

let tiny: Tiny
let openai: OpenAI

before(async () => {
  tiny = await startTiny()
  openai = new OpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none', maxRetries: 0 })
})
after(async () => {
  assert.ok((await turnsOf(tiny.log)).every(({ reason, tokens }) => reason === 'constrained' && tokens === 'exact'))
  await tiny.stop()
})

const Person = z.object({
  name: z.string().max(12),
  age: z.number().int().min(0).max(130),
  mood: z.enum(['glad', 'sad']),
  pets: z.array(z.object({ kind: z.literal('cat'), old: z.boolean().nullable() })).max(2),
})
const ASK = 'Tell me of a person.'
const isPerson = (value: unknown): void => {
  Person.parse(value)
}

test('openai: chat.completions.parse and responses.parse return parsed answers', async () => {
  const messages = [{ role: 'user' as const, content: ASK }]
  const chat = await openai.chat.completions.parse({
    model: 'policy',
    messages,
    response_format: zodResponseFormat(Person, 'person'),
  })
  isPerson(chat.choices[0]!.message.parsed)
  const response = await openai.responses.parse({
    model: 'policy',
    input: ASK,
    text: { format: zodTextFormat(Person, 'person') },
  })
  isPerson(response.output_parsed)
})

test('AI SDK: Output.object returns objects on Chat Completions and on Responses', async () => {
  const models = [
    createOpenAICompatible({
      name: 'instar',
      baseURL: `${tiny.url}/v1`,
      apiKey: 'none',
      supportsStructuredOutputs: true,
    }).chatModel('policy'),
    createOpenAI({ baseURL: `${tiny.url}/v1`, apiKey: 'none' })('policy'),
  ]
  for (const model of models)
    isPerson(
      (await generateText({ model, prompt: ASK, maxRetries: 0, output: Output.object({ schema: Person }) })).output,
    )
})

test('LangChain: withStructuredOutput returns objects by schema and by a forced call', async () => {
  const model = new ChatOpenAI({
    model: 'policy',
    apiKey: 'none',
    maxRetries: 0,
    configuration: { baseURL: `${tiny.url}/v1` },
  })
  for (const method of ['jsonSchema', 'functionCalling'] as const)
    isPerson(await model.withStructuredOutput(Person, { name: 'person', method }).invoke(ASK))
})

test('Anthropic: tool_choice and output_config return structured answers', async () => {
  const client = new Anthropic({ baseURL: tiny.url, apiKey: 'none', maxRetries: 0 })
  const schema = z.toJSONSchema(Person) as Anthropic.Tool.InputSchema
  const asked = { model: 'policy', max_tokens: 200, messages: [{ role: 'user' as const, content: ASK }] }
  const called = await client.messages.create({
    ...asked,
    tools: [{ name: 'person', input_schema: schema }],
    tool_choice: { type: 'tool', name: 'person' },
  })
  assert.equal(called.stop_reason, 'tool_use')
  const [block] = called.content
  assert.ok(block?.type === 'tool_use')
  isPerson(block.input)
  const said = await client.messages.create({ ...asked, output_config: { format: { type: 'json_schema', schema } } })
  const [text] = said.content
  assert.ok(text?.type === 'text')
  isPerson(JSON.parse(text.text))
})

test('OpenAI Agents: outputType returns an object', async () => {
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai }), tracingDisabled: true })
  const { finalOutput } = await runner.run(new Agent({ name: 'teller', model: 'policy', outputType: Person }), ASK)
  isPerson(finalOutput)
})
