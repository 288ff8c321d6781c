/** The OpenAI Agents SDK on Responses and on Chat Completions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Agent, OpenAIProvider, Runner, tool, type AgentInputItem } from '@openai/agents'
import OpenAI from 'openai'
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
import { assertOneThread, assertUsage, startScene, type Scene } from '../scene.ts'

const runnerOf = ({ url, token }: Scene, useResponses: boolean, maxRetries = 0): Runner =>
  new Runner({
    modelProvider: new OpenAIProvider({
      openAIClient: new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries }),
      useResponses,
    }),
    tracingDisabled: true,
  })

const agentWith = (asked: unknown[]): Agent =>
  new Agent({
    name: 'reader',
    instructions: 'Be brief.',
    model: 'policy',
    tools: [
      tool({
        name: 'read',
        description: 'reads',
        parameters: z.object({ path: z.string(), lines: z.number() }),
        execute: (args) => {
          asked.push(args)
          return readFile(args)
        },
      }),
    ],
  })

const runOf = async (runner: Runner, agent: Agent, input: AgentInputItem[], stream: boolean) => {
  if (!stream) return runner.run(agent, input)
  const result = await runner.run(agent, input, { stream: true })
  await result.completed
  return result
}

for (const useResponses of [true, false]) {
  const wire = useResponses ? 'responses' : 'chat'
  for (const stream of [false, true]) {
    test(`${wire}, ${stream ? 'streamed' : 'whole'}: a conversation with calls is one session`, async () => {
      const scene = await startScene(talk)
      try {
        const runner = runnerOf(scene, useResponses)
        const [usages, said, asked]: [Usage[], unknown[], unknown[]] = [[], [], []]
        let history: AgentInputItem[] = []
        for (const content of USERS) {
          const result = await runOf(runner, agentWith(asked), [...history, { role: 'user', content }], stream)
          said.push(result.finalOutput)
          history = result.history
          for (const { usage } of result.rawResponses)
            usages.push({ input: usage.inputTokens, output: usage.outputTokens })
        }
        assert.deepEqual([said, asked], [SAID, CALLED])
        const story = await scene.story()
        assertOneThread(story, TURNS)
        assertUsage(story, usages)
        if (!stream) await scene.record(`openai-agents.${wire}`, pinned('@openai/agents'))
      } finally {
        await scene.stop()
      }
    })
  }

  test(`${wire}: a 429 is retried after Retry-After`, () =>
    assertWaitsOut(async (scene) =>
      String((await runnerOf(scene, useResponses, 2).run(agentWith([]), 'Hello')).finalOutput),
    ))

  test(`${wire}: after a failure inside a stream the retry continues in the same session`, async () => {
    const scene = await startScene(mortal())
    try {
      const runner = runnerOf(scene, useResponses)
      const first = await runner.run(agentWith([]), 'Read both files.')
      const input: AgentInputItem[] = [...first.history, { role: 'user', content: 'Tell me.' }]
      await assert.rejects(runOf(runner, agentWith([]), input, true))
      assert.equal((await runOf(runner, agentWith([]), input, true)).finalOutput, 'The end.')
      const story = await scene.story()
      assert.deepEqual(
        [story.of('session'), story.of('status'), story.of('next'), story.of('attempt')],
        [
          [0, 0, 0, 0],
          ['complete', 'complete', 'aborted', 'complete'],
          [1, 2, null, null],
          [1, 1, 1, 2],
        ],
      )
    } finally {
      await scene.stop()
    }
  })

  test(`${wire}: errors are of the classes of the client`, async () => {
    const scene = await startScene(talk, { contextLength: SMALL_CONTEXT })
    try {
      for (const stream of [false, true])
        await assert.rejects(
          runOf(runnerOf(scene, useResponses), agentWith([]), [{ role: 'user', content: LONG }], stream),
          (error) => error instanceof OpenAI.BadRequestError && OVERFLOW.test(error.message),
        )
      await assert.rejects(
        runnerOf({ ...scene, token: 'wrong' }, useResponses).run(agentWith([]), 'Hello'),
        OpenAI.AuthenticationError,
      )
      assert.deepEqual((await scene.story()).turns, [])
    } finally {
      await scene.stop()
    }
  })
}
