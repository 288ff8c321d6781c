/**
 * Constrained answers enforced by vLLM: forced calls in three dialects, JSON, JSON beside tools, and beside
 * unconstrained answers.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { openMemoryLog } from '@instar/log'
import { readWritten, type TurnCaptured } from '@instar/events'
import { startRemote, type Remote } from '@instar/engine'
import type { LearningEngine } from '@instar/engine/port'
import { adapterFromWeights, isNeutral, openModel, startLearning } from '@instar/policy'
import { parseAnswer } from '@instar/dialects'
import { startRig, turnOf, USER, type Rig } from '../../kit/gateway.ts'
import { promptIdsOf } from '../turn-prompt.ts'
import { MODEL, TOLERANCE } from '../trials.ts'
import { startVllm, type Vllm } from './server.ts'

const START_MS = 20 * 60_000

const BOOK = {
  type: 'object',
  properties: {
    room: { enum: ['a', 'b</tool_call>'] },
    nights: { type: 'integer', minimum: 1, maximum: 9 },
    note: { type: 'string', maxLength: 8 },
    when: { type: 'string', format: 'date' },
  },
  required: ['room', 'nights', 'when'],
}
const RING = {
  type: 'object',
  properties: {
    loud: { type: 'boolean' },
    names: { type: 'array', items: { type: 'string', pattern: '^[a-zé]{1,5}$' }, maxItems: 2 },
  },
  required: ['loud', 'names'],
  additionalProperties: false,
}
const TOOLS = Object.entries({ book: BOOK, ring: RING })
const ajv = new Ajv2020({
  strict: false,
  formats: { date: (text: string) => new Date(text).toISOString().startsWith(text) },
})
const fits = new Map(TOOLS.map(([name, schema]) => [name, ajv.compile(schema)]))
const fit = (call: { name: string; arguments: string }): void =>
  assert.ok(fits.get(call.name)?.(JSON.parse(call.arguments)), `${call.name} ${call.arguments}`)

/** `target`: folder of the model. `seeds`: the seeds of each kind of answer. */
export const forced = (target = MODEL, seeds = 6): void => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-forced-'))
  const figures = { turns: 0, tokens: 0, calls: 0, cut: 0 }
  let vllm: Vllm
  let remote: Remote
  let rig: Rig
  let learner: LearningEngine

  before(
    async () => {
      vllm = await startVllm(target)
      const model = await openModel(target)
      learner = await startLearning({ model: target })
      remote = await Promise.race([
        startRemote({
          engine: `vllm+${vllm.url}/v1`,
          model,
          adapters: folder,
          isNeutral,
          startMs: START_MS,
          logLine: (said) => process.stdout.write(`${said}\n`),
        }),
        vllm.ended,
      ])
      rig = await startRig({
        log: openMemoryLog(),
        ports: { engine: remote.engine, model: remote.model, toAdapter: adapterFromWeights },
      })
    },
    { timeout: START_MS + 60_000 },
  )

  after(async () => {
    await rig?.stop()
    await remote?.engine.close()
    await learner?.close()
    await vllm?.stop()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ forced: figures })}\n`)
  })

  /** The turn of an answer, exact and not trained on; its log-probs are never below those of the whole vocabulary. */
  const turnBehind = async (
    response: Response,
    reason: string | null = 'constrained',
  ): Promise<{ turn: TurnCaptured; text: string }> => {
    assert.equal(response.status, 200, await response.clone().text())
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.ok(turn.type === 'TurnCaptured')
    assert.deepEqual([turn.tokens, turn.reason, turn.logprobs.length], ['exact', reason, turn.ids.length])
    const whole = await learner.score({
      prompt: await promptIdsOf(rig.log, turn.turn),
      completion: turn.ids,
      adapter: null,
      temperature: turn.sampling.temperature,
    })
    for (const [at, logprob] of turn.logprobs.entries())
      assert.ok(logprob >= whole[at]! - TOLERANCE, `${logprob} and ${whole[at]} at ${at}`)
    figures.turns += 1
    figures.tokens += turn.ids.length
    if (turn.finish === 'length') figures.cut += 1
    return { turn, text: readWritten(turn.text) }
  }
  const chat = (body: object): Promise<Response> =>
    rig.fetch('/v1/chat/completions', {
      json: {
        model: 'policy',
        temperature: 1,
        max_tokens: 200,
        messages: [USER('Hello')],
        tools: TOOLS.map(([name, parameters]) => ({ type: 'function', function: { name, parameters } })),
        ...body,
      },
    })

  /** The calls in the text of the turn. */
  const callsIn = ({ turn, text }: { turn: TurnCaptured; text: string }): { name: string; arguments: string }[] => {
    const { content, toolCalls } = parseAnswer(text)
    assert.deepEqual([content, turn.finish, turn.toolCallIds.length], ['', 'tool_calls', toolCalls.length])
    for (const call of toolCalls) fit(call)
    figures.calls += toolCalls.length
    return toolCalls
  }

  test('a named function gives one call of its schema, with as many ids as log-probs as tokens that vLLM counted', async () => {
    for (let seed = 0; seed < seeds; seed += 1) {
      for (const name of ['book', 'ring']) {
        const response = await chat({ seed, tool_choice: { type: 'function', function: { name } } })
        const behind = await turnBehind(response)
        const body = (await response.json()) as {
          choices: { message: { content: null; tool_calls: { function: { name: string; arguments: string } }[] } }[]
          usage: { completion_tokens: number }
        }
        assert.deepEqual(
          body.choices[0]!.message.tool_calls.map((call) => call.function),
          callsIn(behind),
        )
        assert.deepEqual(
          [body.choices[0]!.message.tool_calls.map((call) => call.function.name), body.usage.completion_tokens],
          [[name], behind.turn.ids.length],
        )
      }
    }
  })

  test('tool_choice required gives one call without parallel_tool_calls, else one or more; streamed', async () => {
    for (let seed = 0; seed < seeds; seed += 1) {
      const one = await chat({ seed, tool_choice: 'required', parallel_tool_calls: false, stream: true })
      await one.clone().text()
      assert.equal(callsIn(await turnBehind(one)).length, 1)
      const some = await chat({ seed, tool_choice: 'required', max_tokens: 400 })
      const behind = await turnBehind(some)
      if (behind.turn.finish === 'tool_calls') callsIn(behind)
      else assert.equal(behind.turn.finish, 'length')
    }
  })

  test('Responses and Messages give forced calls', async () => {
    const responses = await rig.fetch('/v1/responses', {
      json: {
        model: 'policy',
        input: 'Hello',
        tools: TOOLS.map(([name, parameters]) => ({ type: 'function', name, parameters })),
        tool_choice: { type: 'function', name: 'ring' },
        max_output_tokens: 200,
      },
    })
    const behind = await turnBehind(responses)
    const { output } = (await responses.json()) as { output: { type: string; name: string; arguments: string }[] }
    assert.deepEqual(
      output.map(({ type, name, arguments: given }) => ({ type, name, arguments: given })),
      callsIn(behind).map((call) => ({ type: 'function_call', ...call })),
    )
    const messages = await rig.fetch('/v1/messages', {
      json: {
        model: 'policy',
        messages: [USER('Hello')],
        tools: TOOLS.map(([name, input_schema]) => ({ name, input_schema })),
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
        max_tokens: 200,
      },
    })
    const [call] = callsIn(await turnBehind(messages))
    const { content, stop_reason } = (await messages.json()) as {
      content: { type: string; name: string; input: unknown }[]
      stop_reason: string
    }
    assert.deepEqual(
      [stop_reason, content.map(({ type, name, input }) => [type, name, input])],
      ['tool_use', [['tool_use', call!.name, JSON.parse(call!.arguments)]]],
    )
  })

  test('JSON answers work alone and beside tools, and concurrent free answers do not change', async () => {
    const response_format = { type: 'json_schema', json_schema: { name: 'ring', schema: RING } }
    const asked = Array.from({ length: seeds }, async (_, seed) => {
      const { text } = await turnBehind(await chat({ seed, tools: undefined, response_format }))
      fit({ name: 'ring', arguments: text })
      const beside = await turnBehind(await chat({ seed, response_format, max_tokens: 120 }))
      if (beside.turn.finish === 'stop') fit({ name: 'ring', arguments: beside.text })
      else if (beside.turn.finish === 'tool_calls') assert.ok(parseAnswer(beside.text).toolCalls.length > 0)
      await turnBehind(await chat({ seed, tools: undefined, max_tokens: 40 }), null)
    })
    await Promise.all(asked)
  })

  test('a schema that the grammar does not support gives an error that names the keyword, and vLLM gets no request', async () => {
    const response = await chat({
      tool_choice: 'required',
      tools: [
        { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { not: {} } } } } },
      ],
    })
    assert.deepEqual(
      [response.status, ((await response.json()) as { error: { message: string } }).error.message],
      [400, 'tools (f): The keyword "not" at #/properties/a of the schema is not supported.'],
    )
  })
}
