/**
 * The AI SDK: `@ai-sdk/openai` (Responses, with references to earlier items) and `@ai-sdk/openai-compatible` (Chat
 * Completions).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, isStepCount, streamText, tool, type LanguageModel, type ModelMessage } from 'ai'
import { z } from 'zod'
import {
  assertWaitsOut,
  CALLED,
  LONG,
  mortal,
  OVERFLOW,
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

const WIRES: Readonly<Record<string, (scene: Scene) => LanguageModel>> = {
  responses: ({ url, token }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: token })('policy'),
  chat: ({ url, token }) =>
    createOpenAICompatible({ name: 'instar', baseURL: `${url}/v1`, apiKey: token, includeUsage: true })('policy'),
}
const toolsFor = (asked: unknown[]) => ({
  read: tool({
    description: 'reads',
    inputSchema: z.object({ path: z.string(), lines: z.number() }),
    execute: (args) => {
      asked.push(args)
      return readFile(args)
    },
  }),
})

test('responses: a text answer that comes back as an item reference finds its session', async () => {
  const scene = await startScene((last) => (last.includes('Good bye') ? SAID[2] : SAID[1]))
  try {
    const model = WIRES['responses']!(scene)
    const first = await generateText({ model, prompt: 'Hello', maxRetries: 0 })
    await generateText({
      model,
      messages: [{ role: 'user', content: 'Hello' }, ...first.responseMessages, { role: 'user', content: USERS[2] }],
      maxRetries: 0,
    })
    const story = await scene.story()
    assertOneThread(story, 2)
    assert.deepEqual(
      story.turns.map(({ event }) => event.labelSource),
      ['fingerprint', 'minted'],
    )
    await scene.record('ai-sdk.references', pinned('@ai-sdk/openai'))
  } finally {
    await scene.stop()
  }
})

for (const [wire, modelOf] of Object.entries(WIRES)) {
  for (const stream of [false, true]) {
    test(`${wire}, ${stream ? 'streamed' : 'whole'}: a conversation with calls is one session`, async () => {
      const scene = await startScene(talk)
      try {
        const messages: ModelMessage[] = []
        const [usages, said, asked]: [Usage[], string[], unknown[]] = [[], [], []]
        for (const content of USERS) {
          messages.push({ role: 'user', content })
          const options = {
            model: modelOf(scene),
            instructions: 'Be brief.',
            messages,
            tools: toolsFor(asked),
            stopWhen: isStepCount(5),
            maxRetries: 0,
          }
          const result = stream ? streamText(options) : await generateText(options)
          said.push(await result.text)
          for (const { usage } of await result.steps)
            usages.push({ input: usage.inputTokens ?? 0, output: usage.outputTokens ?? 0 })
          messages.push(...(await result.responseMessages))
        }
        assert.deepEqual([said, asked], [SAID, CALLED])
        const bodies = posts(scene.wire).map(({ body }) => body)
        assert.equal(bodies.at(-1)!.includes('item_reference'), wire === 'responses')
        const story = await scene.story()
        assertOneThread(story, TURNS)
        assertUsage(story, usages)
        if (stream)
          await scene.record(`ai-sdk.${wire}`, pinned(wire === 'chat' ? '@ai-sdk/openai-compatible' : '@ai-sdk/openai'))
      } finally {
        await scene.stop()
      }
    })
  }

  test(`${wire}: a 429 is retried after Retry-After`, () =>
    assertWaitsOut(async (scene) => (await generateText({ model: modelOf(scene), prompt: 'Hello' })).text))

  test(`${wire}: after a failure inside a stream the retry continues in the same session`, async () => {
    const scene = await startScene(mortal())
    try {
      const tools = toolsFor([])
      const first = await generateText({ model: modelOf(scene), prompt: 'Read both files.', tools, maxRetries: 0 })
      const messages: ModelMessage[] = [
        { role: 'user', content: 'Read both files.' },
        ...first.responseMessages,
        { role: 'user', content: 'Tell me.' },
      ]
      const errors: unknown[] = []
      const cut = streamText({
        model: modelOf(scene),
        messages,
        tools,
        maxRetries: 0,
        onError: ({ error }) => {
          errors.push(error)
        },
      })
      let shown = ''
      for await (const text of cut.textStream) shown += text
      assert.equal(errors.length, 1)
      const again = streamText({ model: modelOf(scene), messages, tools, maxRetries: 0 })
      assert.equal(await again.text, 'The end.')
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

  test(`${wire}: errors are of the class of the SDK`, async () => {
    const scene = await startScene(talk, { contextLength: SMALL_CONTEXT })
    try {
      await assert.rejects(
        generateText({ model: modelOf(scene), prompt: LONG, maxRetries: 0 }),
        (error) =>
          APICallError.isInstance(error) &&
          error.statusCode === 400 &&
          !error.isRetryable &&
          OVERFLOW.test(error.message),
      )
      const other = modelOf({ ...scene, token: 'wrong' })
      await assert.rejects(
        generateText({ model: other, prompt: 'Hello', maxRetries: 0 }),
        (error) => APICallError.isInstance(error) && error.statusCode === 401,
      )
      assert.deepEqual((await scene.story()).turns, [])
    } finally {
      await scene.stop()
    }
  })
}
