/** The official Anthropic client: Messages, whole and streamed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
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
import { pinned } from '../pins.ts'
import { assertOneThread, assertUsage, startScene, type Scene } from '../scene.ts'

const clientOf = ({ url, token }: Scene, maxRetries = 0): Anthropic =>
  new Anthropic({ baseURL: url, apiKey: token, maxRetries })
const tools: Anthropic.Tool[] = [{ name: 'read', input_schema: { ...PARAMETERS, required: [...PARAMETERS.required] } }]

const turnOf = (client: Anthropic, messages: Anthropic.MessageParam[], stream: boolean): Promise<Anthropic.Message> => {
  const body = {
    model: 'policy',
    max_tokens: 400,
    system: 'Be brief.',
    messages,
    tools,
    thinking: { type: 'enabled' as const, budget_tokens: 1024 },
  }
  return stream ? client.messages.stream(body).finalMessage() : client.messages.create(body)
}

for (const stream of [false, true]) {
  test(`${stream ? 'streamed' : 'whole'}: a conversation with calls, reasoning and moving cache marks is one session`, async () => {
    const scene = await startScene(talk)
    try {
      const client = clientOf(scene)
      const messages: Anthropic.MessageParam[] = []
      const [usages, said, asked]: [Usage[], string[], unknown[]] = [[], [], []]
      for (const text of USERS) {
        let content: Anthropic.ContentBlockParam[] = [{ type: 'text', text }]
        for (;;) {
          const sent: Anthropic.MessageParam[] = [
            ...messages,
            {
              role: 'user',
              content: content.map((block, i) =>
                i === content.length - 1
                  ? ({ ...block, cache_control: { type: 'ephemeral' } } as Anthropic.ContentBlockParam)
                  : block,
              ),
            },
          ]
          const counted = await client.messages.countTokens({
            model: 'policy',
            system: 'Be brief.',
            messages: sent,
            tools,
          })
          const message = await turnOf(client, sent, stream)
          usages.push({ input: message.usage.input_tokens, output: message.usage.output_tokens })
          if (messages.length === 0) {
            assert.equal(counted.input_tokens, message.usage.input_tokens)
            assert.equal(message.content[0]?.type === 'thinking' ? message.content[0].thinking.trim() : null, THOUGHT)
          }
          messages.push({ role: 'user', content }, { role: 'assistant', content: message.content })
          if (message.stop_reason !== 'tool_use') {
            assert.equal(message.stop_reason, 'end_turn')
            said.push(message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''))
            break
          }
          content = message.content.flatMap((block): Anthropic.ContentBlockParam[] => {
            if (block.type !== 'tool_use') return []
            asked.push(block.input)
            return [{ type: 'tool_result', tool_use_id: block.id, content: readFile(block.input as { path: string }) }]
          })
        }
      }
      assert.deepEqual([said, asked], [SAID, CALLED])
      const story = await scene.story()
      assertOneThread(story, TURNS)
      assertUsage(story, usages)
      if (!stream) await scene.record('anthropic', pinned('@anthropic-ai/sdk'))
    } finally {
      await scene.stop()
    }
  })
}

test('a 429 is retried after Retry-After', () =>
  assertWaitsOut(async (scene) => {
    const [said] = (await turnOf(clientOf(scene, 2), [{ role: 'user', content: 'Hello' }], false)).content
    return said?.type === 'text' ? said.text : ''
  }))

test('a failure inside a stream is an error of the client, and the retry without streaming is in the same session', async () => {
  const scene = await startScene(mortal())
  try {
    const client = clientOf(scene)
    const first = await turnOf(client, [{ role: 'user', content: 'Read both files.' }], true)
    const messages: Anthropic.MessageParam[] = [
      { role: 'user', content: 'Read both files.' },
      { role: 'assistant', content: first.content },
      {
        role: 'user',
        content: first.content.flatMap((block) =>
          block.type === 'tool_use'
            ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: 'It is red, it is blue. Tell me.' }]
            : [],
        ),
      },
    ]
    let shown = ''
    await assert.rejects(
      client.messages
        .stream({ model: 'policy', max_tokens: 400, system: 'Be brief.', messages, tools })
        .on('text', (text) => {
          shown += text
        })
        .finalMessage(),
      (error) => error instanceof Anthropic.APIError && /the engine is gone/.test(error.message),
    )
    const again = await turnOf(client, messages, false)
    assert.equal(again.content[0]?.type === 'text' ? again.content[0].text : null, 'The end.')
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
  } finally {
    await scene.stop()
  }
})

test('errors are of the classes of the client', async () => {
  const scene = await startScene(talk, { contextLength: SMALL_CONTEXT })
  try {
    const client = clientOf(scene)
    for (const stream of [false, true]) {
      await assert.rejects(
        turnOf(client, [{ role: 'user', content: LONG }], stream),
        (error) =>
          error instanceof Anthropic.BadRequestError &&
          error.type === 'invalid_request_error' &&
          OVERFLOW.test(error.message),
      )
    }
    await assert.rejects(
      client.messages.create({ model: 'other', max_tokens: 9, messages: [{ role: 'user', content: 'Hello' }] }),
      Anthropic.NotFoundError,
    )
    await assert.rejects(
      new Anthropic({ baseURL: scene.url, apiKey: 'wrong' }).models.list(),
      Anthropic.AuthenticationError,
    )
    await assert.rejects(
      client.messages.create({ model: 'policy', max_tokens: 9, messages: [] }),
      Anthropic.BadRequestError,
    )
    assert.deepEqual((await scene.story()).turns, [])
  } finally {
    await scene.stop()
  }
})

test('the list of models and a single model have the shape that this client reads', async () => {
  const scene = await startScene(talk)
  try {
    const client = clientOf(scene)
    const page = await client.models.list()
    assert.deepEqual(
      [page.data.map(({ id, type }) => [id, type]), page.first_id, page.last_id, page.hasNextPage()],
      [
        [
          ['policy', 'model'],
          ['policy@0', 'model'],
        ],
        'policy',
        'policy@0',
        false,
      ],
    )
    const one = await client.models.retrieve('policy')
    assert.equal(one.id, 'policy')
    assert.match(one.display_name, /^policy \(.+\)$/)
    assert.ok(Number.isFinite(Date.parse(one.created_at)))
  } finally {
    await scene.stop()
  }
})
