/** LangChain's OpenAI model on Chat Completions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  HumanMessage,
  SystemMessage,
  ToolMessage,
  type AIMessageChunk,
  type BaseMessage,
} from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import {
  CALLED,
  LONG,
  mortal,
  OVERFLOW,
  PARAMETERS,
  readFile,
  SAID,
  SMALL_CONTEXT,
  talk,
  TURNS,
  USERS,
  type Usage,
} from '../conversation.ts'
import { pinned } from '../pins.ts'
import { assertOneThread, assertUsage, posts, startScene, type Scene } from '../scene.ts'

const tools = [{ type: 'function' as const, function: { name: 'read', description: 'reads', parameters: PARAMETERS } }]
const modelOf = ({ url, token }: Scene, maxRetries = 0) =>
  new ChatOpenAI({ model: 'policy', apiKey: token, maxRetries, configuration: { baseURL: `${url}/v1` } }).bindTools(
    tools,
  )

/** Concatenated chunks are what a graph keeps in its history. */
const turnOf = async (
  model: ReturnType<typeof modelOf>,
  messages: BaseMessage[],
  stream: boolean,
): Promise<AIMessageChunk> => {
  if (!stream) return model.invoke(messages)
  const chunks: AIMessageChunk[] = []
  for await (const chunk of await model.stream(messages)) chunks.push(chunk)
  return chunks.reduce((whole, chunk) => whole.concat(chunk))
}

for (const stream of [false, true]) {
  test(`${stream ? 'streamed' : 'whole'}: a conversation with calls is one session`, async () => {
    const scene = await startScene(talk)
    try {
      const model = modelOf(scene)
      const messages: BaseMessage[] = [new SystemMessage('Be brief.')]
      const [usages, said, asked]: [Usage[], string[], unknown[]] = [[], [], []]
      for (const text of USERS) {
        messages.push(new HumanMessage(text))
        for (;;) {
          const answer = await turnOf(model, messages, stream)
          usages.push({
            input: answer.usage_metadata?.input_tokens ?? 0,
            output: answer.usage_metadata?.output_tokens ?? 0,
          })
          messages.push(answer)
          if (!answer.tool_calls?.length) {
            said.push(answer.text)
            break
          }
          for (const { id, name, args } of answer.tool_calls) {
            asked.push(args)
            messages.push(new ToolMessage({ tool_call_id: id!, name, content: readFile(args as { path: string }) }))
          }
        }
      }
      assert.deepEqual([said, asked], [SAID, CALLED])
      const story = await scene.story()
      assertOneThread(story, TURNS)
      assertUsage(story, usages)
      if (!stream) await scene.record('langchain', pinned('@langchain/openai'))
    } finally {
      await scene.stop()
    }
  })
}

test('a 429 is retried', async () => {
  const scene = await startScene(talk, { limited: true })
  try {
    scene.exhaust()
    assert.equal((await modelOf(scene, 4).invoke([new HumanMessage('Hello')])).text, 'Bye.')
    const { exchanges } = scene.wire
    assert.equal(exchanges.at(-1)!.status, 200)
    assert.ok(
      exchanges.length > 1 && exchanges.at(-1)!.at - exchanges[0]!.at >= 1000,
      exchanges.map(({ status, at }) => `${status} ${at - exchanges[0]!.at}`).join(),
    )
    assertOneThread(await scene.story(), 1)
  } finally {
    await scene.stop()
  }
})

test('after a failure inside a stream the retry continues in the same session', async () => {
  const scene = await startScene(mortal())
  try {
    const model = modelOf(scene)
    const messages: BaseMessage[] = [new HumanMessage('Read both files.')]
    const first = await turnOf(model, messages, true)
    messages.push(
      first,
      ...(first.tool_calls ?? []).map(
        ({ id }) => new ToolMessage({ tool_call_id: id!, content: 'It is red, it is blue. Tell me.' }),
      ),
    )
    await assert.rejects(turnOf(model, messages, true), /the engine is gone/)
    assert.equal((await turnOf(model, messages, true)).text, 'The end.')
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
  } finally {
    await scene.stop()
  }
})

test('errors keep their status and code', async () => {
  const scene = await startScene(talk, { contextLength: SMALL_CONTEXT })
  try {
    for (const stream of [false, true])
      await assert.rejects(
        turnOf(modelOf(scene), [new HumanMessage(LONG)], stream),
        (error) => error instanceof Error && OVERFLOW.test(error.message),
      )
    await assert.rejects(
      modelOf({ ...scene, token: 'wrong' }).invoke([new HumanMessage('Hello')]),
      (error) => (error as { status?: unknown }).status === 401,
    )
    assert.equal(posts(scene.wire).length, 3)
    assert.deepEqual((await scene.story()).turns, [])
  } finally {
    await scene.stop()
  }
})
