/** The official OpenAI client: Chat Completions and Responses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'
import {
  assertWaitsOut,
  CALLED,
  LONG,
  mortal,
  OVERFLOW,
  PARAMETERS,
  readFile,
  SAID,
  SMALL_CONTEXT,
  talk,
  THOUGHT,
  TURNS,
  USERS,
  type Usage,
} from '../conversation.ts'
import { assertOneThread, assertUsage, startScene, type Scene } from '../scene.ts'

const clientOf = ({ url, token }: Scene, maxRetries = 0): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries })

type ChatMessage = OpenAI.ChatCompletionMessageParam
const chatTools: OpenAI.ChatCompletionTool[] = [
  { type: 'function', function: { name: 'read', parameters: PARAMETERS } },
]

/** Not streamed, or a stream that the client assembles. */
const chatTurn = async (client: OpenAI, messages: ChatMessage[], stream: boolean): Promise<OpenAI.ChatCompletion> =>
  stream
    ? client.chat.completions
        .stream({ model: 'policy', messages, tools: chatTools, stream_options: { include_usage: true } })
        .finalChatCompletion()
    : client.chat.completions.create({ model: 'policy', messages, tools: chatTools })

const chatTalk = async (
  client: OpenAI,
  stream: boolean,
): Promise<{ usages: Usage[]; said: string[]; asked: unknown[] }> => {
  const messages: ChatMessage[] = [{ role: 'developer', content: 'Be brief.' }]
  const [usages, said, asked]: [Usage[], string[], unknown[]] = [[], [], []]
  for (const content of USERS) {
    messages.push({ role: 'user', content })
    for (;;) {
      const {
        choices: [choice],
        usage,
      } = await chatTurn(client, messages, stream)
      assert.ok(choice && usage)
      usages.push({ input: usage.prompt_tokens, output: usage.completion_tokens })
      messages.push(choice.message)
      for (const call of choice.message.tool_calls ?? []) {
        assert.ok(call.type === 'function')
        const args = JSON.parse(call.function.arguments) as { path: string }
        asked.push(args)
        messages.push({ role: 'tool', tool_call_id: call.id, content: readFile(args) })
      }
      if (choice.finish_reason === 'tool_calls') continue
      said.push(choice.message.content ?? '')
      break
    }
  }
  return { usages, said, asked }
}

for (const stream of [false, true]) {
  test(`chat, ${stream ? 'streamed' : 'whole'}: a conversation with calls is one session`, async () => {
    const scene = await startScene(talk)
    try {
      const { usages, said, asked } = await chatTalk(clientOf(scene), stream)
      assert.deepEqual([said, asked], [SAID, CALLED])
      const story = await scene.story()
      assertOneThread(story, TURNS)
      assertUsage(story, usages)
      assert.deepEqual(
        story.turns.map(({ event }) => event.labelSource),
        ['fingerprint', 'minted', 'minted', 'minted', 'minted'],
      )
    } finally {
      await scene.stop()
    }
  })
}

type Item = OpenAI.Responses.ResponseInputItem
const responseTools: OpenAI.Responses.Tool[] = [
  { type: 'function', name: 'read', strict: true, parameters: PARAMETERS },
]
/** How a client continues: all items again (stored or not), references to them, or the id of the response before. */
const WAYS = ['items', 'sealed', 'references', 'previous'] as const

const responseTurn = async (
  client: OpenAI,
  body: OpenAI.Responses.ResponseCreateParamsNonStreaming,
  stream: boolean,
): Promise<OpenAI.Responses.Response> =>
  stream
    ? (client.responses.stream({ ...body, stream: true }).finalResponse() as Promise<OpenAI.Responses.Response>)
    : client.responses.create(body)

for (const way of WAYS)
  for (const stream of [false, true]) {
    test(`responses, ${stream ? 'streamed' : 'whole'}, continued by ${way}: a conversation with calls is one session`, async () => {
      const scene = await startScene(talk)
      try {
        const client = clientOf(scene)
        const usages: Usage[] = []
        const asked: unknown[] = []
        const said: string[] = []
        let history: Item[] = []
        let previous: string | null = null
        for (const content of USERS) {
          let fresh: Item[] = [{ role: 'user', content }]
          for (;;) {
            const response = await responseTurn(
              client,
              {
                model: 'policy',
                instructions: 'Be brief.',
                tools: responseTools,
                input: way === 'previous' ? fresh : [...history, ...fresh],
                ...(way === 'previous' && previous !== null ? { previous_response_id: previous } : {}),
                ...(way === 'sealed' ? { store: false, include: ['reasoning.encrypted_content' as const] } : {}),
              },
              stream,
            )
            usages.push({ input: response.usage!.input_tokens, output: response.usage!.output_tokens })
            const output = response.output as Item[]
            history = [
              ...history,
              ...fresh,
              ...(way === 'references'
                ? output.map((item) => ({ type: 'item_reference' as const, id: (item as { id: string }).id }))
                : output),
            ]
            previous = response.id
            const called = response.output.filter((item) => item.type === 'function_call')
            if (called.length === 0) {
              said.push(response.output_text)
              break
            }
            fresh = called.map(({ call_id, arguments: args }) => {
              asked.push(JSON.parse(args))
              return { type: 'function_call_output', call_id, output: readFile(JSON.parse(args) as { path: string }) }
            })
            if (asked.length === 2)
              assert.deepEqual(
                response.output[0]?.type === 'reasoning' ? response.output[0].summary.map(({ text }) => text) : null,
                [THOUGHT],
              )
          }
        }
        assert.deepEqual([said, asked], [SAID, CALLED])
        const story = await scene.story()
        assertOneThread(story, TURNS)
        assertUsage(story, usages)
      } finally {
        await scene.stop()
      }
    })
  }

test('a 429 is retried after Retry-After', () =>
  assertWaitsOut(
    async (scene) =>
      (
        await clientOf(scene, 2).chat.completions.create({
          model: 'policy',
          messages: [{ role: 'user', content: 'Hello' }],
        })
      ).choices[0]!.message.content ?? '',
  ))

test('a failure inside a stream is an error of the client, the sent part is on the log, and the retry is in the same session', async () => {
  const scene = await startScene(mortal())
  try {
    const client = clientOf(scene)
    const messages: ChatMessage[] = [{ role: 'user', content: 'Read both files.' }]
    const first = await client.chat.completions.create({ model: 'policy', messages, tools: chatTools })
    messages.push(
      first.choices[0]!.message,
      ...first.choices[0]!.message.tool_calls!.map(({ id }) => ({
        role: 'tool' as const,
        tool_call_id: id,
        content: 'It is red, it is blue. Tell me.',
      })),
    )
    let shown = ''
    await assert.rejects(
      async () => {
        for await (const { choices } of await client.chat.completions.create({
          model: 'policy',
          messages,
          tools: chatTools,
          stream: true,
        }))
          shown += choices[0]?.delta.content ?? ''
      },
      (error) => error instanceof OpenAI.APIError && /model failed|engine is gone/.test(error.message),
    )
    const again = await chatTurn(client, messages, true)
    assert.equal(again.choices[0]!.message.content, 'The end.')
    const story = await scene.story()
    assert.deepEqual(
      [story.of('session'), story.of('status'), story.of('next'), story.of('attempt')],
      [
        [0, 0, 0],
        ['complete', 'aborted', 'complete'],
        [1, null, null],
        [1, 1, 2],
      ],
    )
    assert.equal(story.turns[1]!.text, shown)
    assert.equal(story.turns[1]!.reason, 'aborted')
  } finally {
    await scene.stop()
  }
})

test('responses: a failure inside a stream is an error of the client', async () => {
  const scene = await startScene(mortal())
  try {
    const types: string[] = []
    for await (const event of await clientOf(scene).responses.create({
      model: 'policy',
      input: 'Tell me',
      stream: true,
    }))
      types.push(event.type)
    assert.equal(types.at(-1), 'response.failed')
    assert.equal(
      (await clientOf(scene).responses.create({ model: 'policy', input: 'Tell me' })).output_text,
      'The end.',
    )
    assert.deepEqual((await scene.story()).of('status'), ['aborted', 'complete'])
  } finally {
    await scene.stop()
  }
})

test('errors are of the classes of the client; a context overflow has its code and both wordings', async () => {
  const scene = await startScene(talk, { contextLength: SMALL_CONTEXT })
  try {
    const client = clientOf(scene)
    const long = [{ role: 'user' as const, content: LONG }]
    const overflow = (error: unknown): boolean =>
      error instanceof OpenAI.BadRequestError &&
      error.code === 'context_length_exceeded' &&
      OVERFLOW.test(error.message)
    for (const stream of [false, true]) {
      await assert.rejects(client.chat.completions.create({ model: 'policy', messages: long, stream }), overflow)
      await assert.rejects(client.responses.create({ model: 'policy', input: long, stream }), overflow)
    }
    await assert.rejects(
      client.chat.completions.create({ model: 'other', messages: [{ role: 'user', content: 'Hello' }] }),
      OpenAI.NotFoundError,
    )
    await assert.rejects(
      new OpenAI({ baseURL: `${scene.url}/v1`, apiKey: 'wrong' }).models.list(),
      OpenAI.AuthenticationError,
    )
    await assert.rejects(
      client.chat.completions.create({ model: 'policy', messages: [] }),
      (error) => error instanceof OpenAI.BadRequestError && error.param === 'messages',
    )
    assert.deepEqual((await scene.story()).turns, [])
  } finally {
    await scene.stop()
  }
})
