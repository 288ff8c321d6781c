/** Constrained answers on engines of token ids: the grammar that is sent, and the answer in each dialect. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { TurnCaptured } from '@instar/events'
import { ebnfOf } from '@instar/grammar'
import { model, turnOf, USER } from '../kit/gateway.ts'
import { startRemoteRig, type RemoteRig } from './rig.ts'
import { ScriptedLlamacpp } from './scripted-llamacpp.ts'
import { ScriptedSglang } from './scripted-sglang.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import type { Body, ScriptedServer } from './server.ts'

const BOOK = {
  type: 'object',
  properties: { room: { enum: ['a', 'b'] }, nights: { type: 'integer', minimum: 1 } },
  required: ['room'],
}
const RING = { type: 'object', properties: {} }
const GIVEN = '{"room": "a", "nights": 2}'
const CALL = `<tool_call>\n{"name": "book", "arguments": ${GIVEN}}\n</tool_call>`
const TOOLS = [
  { type: 'function', function: { name: 'book', parameters: BOOK } },
  { type: 'function', function: { name: 'ring', parameters: RING } },
]
const grammarOf = (names: readonly string[], maxCalls: number): string =>
  ebnfOf(
    {
      json: null,
      calls: [
        { name: 'book', parameters: BOOK },
        { name: 'ring', parameters: RING },
      ].filter(({ name }) => names.includes(name)),
      maxCalls,
      insideReasoning: false,
    },
    false,
  )

const KINDS = [
  {
    kind: 'vllm',
    server: () => new ScriptedVllm(model, { say: () => CALL }),
    path: '/v1/completions',
    given: (body: Body) => (body['structured_outputs'] as Body | undefined)?.['grammar'],
    refusal: 'Invalid grammar specification.',
  },
  {
    kind: 'sglang',
    server: () => new ScriptedSglang(model, { say: () => CALL }),
    path: '/generate',
    given: (body: Body) => (body['sampling_params'] as Body)['ebnf'],
    refusal: 'Failed to compile ebnf grammar: line 3',
  },
  {
    kind: 'llamacpp',
    server: () => new ScriptedLlamacpp(model, { say: () => CALL }),
    path: '/completion',
    given: (body: Body) => body['grammar'],
    refusal: 'Failed to parse grammar',
  },
] as const

const opened = async (t: TestContext, kind: string, server: ScriptedServer): Promise<RemoteRig> => {
  await server.start()
  const rig = await startRemoteRig(`${kind}+${server.url}/v1`)
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  return rig
}

type Fault = { error: { message: string; param: string | null; code: string } }
const chat = (rig: RemoteRig, body: object): Promise<Response> =>
  rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')], tools: TOOLS, ...body } })
const captured = async (rig: RemoteRig, response: Response): Promise<TurnCaptured> => {
  const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
  assert.ok(turn.type === 'TurnCaptured')
  return turn
}
const events = async (response: Response): Promise<Record<string, unknown>[]> =>
  [...(await response.text()).matchAll(/^data: (\{.*)$/gm)].map(
    ([, data]) => JSON.parse(data!) as Record<string, unknown>,
  )

for (const { kind, server: start, path, given, refusal } of KINDS) {
  test(`${kind}: a forced call is requested by a grammar and returned as a call, whole and streamed; the turn is exact and not trained on`, async (t) => {
    const server = start()
    const rig = await opened(t, kind, server)
    for (const [choice, names, most] of [
      [{ tool_choice: 'required' }, ['book', 'ring'], 16],
      [{ tool_choice: 'required', parallel_tool_calls: false }, ['book', 'ring'], 1],
      [{ tool_choice: { type: 'function', function: { name: 'book' } } }, ['book'], 1],
    ] as const) {
      const response = await chat(rig, choice)
      const {
        choices: [first],
      } = (await response.json()) as {
        choices: {
          finish_reason: string
          message: { content: null; tool_calls: { id: string; function: unknown }[] }
        }[]
      }
      assert.deepEqual(
        [first!.finish_reason, first!.message.content, first!.message.tool_calls.map((call) => call.function)],
        ['tool_calls', null, [{ name: 'book', arguments: GIVEN }]],
      )
      assert.equal(given(server.asked(path).at(-1)!.body), grammarOf(names, most))
      const turn = await captured(rig, response)
      assert.deepEqual(
        [Buffer.from(turn.text.bytes).toString(), turn.finish, turn.trainable, turn.toolCallIds],
        [CALL, 'tool_calls', false, [first!.message.tool_calls[0]!.id]],
      )
      // llama.cpp reports log-probs before the grammar, so they are not those of sampling.
      if (kind === 'llamacpp') assert.deepEqual([turn.tokens, turn.reason, turn.ids], ['none', 'other_logprobs', []])
      else
        assert.deepEqual(
          [turn.tokens, turn.reason, turn.ids, turn.logprobs.length],
          ['exact', 'constrained', [...model.encode(CALL), model.endOfTurn[0]!], turn.ids.length],
        )
    }
    const streamed = await events(await chat(rig, { tool_choice: 'required', stream: true }))
    const deltas = streamed.flatMap(
      (event) =>
        event['choices'] as {
          delta: { content?: string; tool_calls?: { function: { name?: string; arguments: string } }[] }
          finish_reason: string | null
        }[],
    )
    const calls = deltas.flatMap(({ delta }) => delta.tool_calls ?? []).map((call) => call.function)
    assert.deepEqual(
      [
        calls.find(({ name }) => name !== undefined)?.name,
        calls.map((call) => call.arguments).join(''),
        deltas.at(-1)!.finish_reason,
      ],
      ['book', GIVEN, 'tool_calls'],
    )
    assert.ok(deltas.every(({ delta }) => !delta.content))
    await chat(rig, {})
    assert.equal(given(server.asked(path).at(-1)!.body), undefined)
  })

  test(`${kind}: a forced call has the same form in Responses and Messages`, async (t) => {
    const server = start()
    const rig = await opened(t, kind, server)
    const responses = (body: object): Promise<Response> =>
      rig.fetch('/v1/responses', {
        json: {
          model: 'policy',
          input: 'Hi',
          tools: [
            { type: 'function', name: 'book', parameters: BOOK },
            { type: 'function', name: 'ring', parameters: RING },
          ],
          ...body,
        },
      })
    const messages = (body: object): Promise<Response> =>
      rig.fetch('/v1/messages', {
        json: {
          model: 'policy',
          max_tokens: 100,
          messages: [USER('Hi')],
          tools: [
            { name: 'book', input_schema: BOOK },
            { name: 'ring', input_schema: RING },
          ],
          ...body,
        },
      })
    const whole = (await (await responses({ tool_choice: { type: 'function', name: 'book' } })).json()) as {
      output: { type: string; name: string; arguments: string }[]
    }
    assert.deepEqual(
      whole.output.map(({ type, name, arguments: said }) => [type, name, said]),
      [['function_call', 'book', GIVEN]],
    )
    assert.equal(given(server.asked(path).at(-1)!.body), grammarOf(['book'], 1))
    const done = (await events(await responses({ tool_choice: 'required', stream: true }))).find(
      (event) => event['type'] === 'response.function_call_arguments.done',
    )
    assert.equal(done?.['arguments'], GIVEN)
    assert.equal(given(server.asked(path).at(-1)!.body), grammarOf(['book', 'ring'], 16))
    const one = (await (await messages({ tool_choice: { type: 'any', disable_parallel_tool_use: true } })).json()) as {
      stop_reason: string
      content: { type: string; name: string; input: unknown }[]
    }
    assert.deepEqual(
      [one.stop_reason, one.content.map(({ type, name, input }) => [type, name, input])],
      ['tool_use', [['tool_use', 'book', JSON.parse(GIVEN)]]],
    )
    assert.equal(given(server.asked(path).at(-1)!.body), grammarOf(['book', 'ring'], 1))
    const streamed = await events(await messages({ tool_choice: { type: 'tool', name: 'book' }, stream: true }))
    const json = streamed
      .flatMap((event) =>
        event['type'] === 'content_block_delta'
          ? [(event['delta'] as { partial_json?: string }).partial_json ?? '']
          : [],
      )
      .join('')
    assert.equal(json, GIVEN)
    assert.equal(given(server.asked(path).at(-1)!.body), grammarOf(['book'], 1))
  })

  test(`${kind}: JSON answers work alone and beside tools; a schema that the grammar or the server does not support gives 400`, async (t) => {
    const server = start()
    const rig = await opened(t, kind, server)
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema: BOOK } }
    const json = { field: 'response_format', schema: BOOK }
    server.behaviour.say = () => GIVEN
    const alone = await chat(rig, { response_format, tools: undefined })
    assert.equal(
      ((await alone.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content,
      GIVEN,
    )
    assert.equal(
      given(server.asked(path).at(-1)!.body),
      ebnfOf({ json, calls: [], maxCalls: 16, insideReasoning: false }, false),
    )
    assert.equal((await captured(rig, alone)).reason, kind === 'llamacpp' ? 'other_logprobs' : 'constrained')
    await chat(rig, { response_format })
    const free = TOOLS.map((tool) => ({ name: tool.function.name, parameters: { type: 'object' } }))
    assert.equal(
      given(server.asked(path).at(-1)!.body),
      ebnfOf({ json, calls: free, maxCalls: 16, insideReasoning: false }, false),
    )

    const asked = server.asked(path).length
    const loose = await chat(rig, {
      tool_choice: 'required',
      tools: [
        {
          type: 'function',
          function: {
            name: 'f',
            parameters: { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } },
          },
        },
      ],
    })
    assert.deepEqual(
      [loose.status, ((await loose.json()) as Fault).error.message],
      [400, 'tools (f): The keyword "uniqueItems" at #/properties/a of the schema is not supported.'],
    )
    assert.equal(server.asked(path).length, asked)

    server.behaviour.refusesGrammar = refusal
    for (const stream of [false, true]) {
      const response = await chat(rig, { tool_choice: 'required', stream })
      const { error } = (await response.json()) as Fault
      assert.deepEqual([response.status, error.code, error.param], [400, 'bad_request', 'tool_choice'])
      assert.ok(
        error.message.startsWith(`The engine ${kind} rejects the grammar of the answer: `) &&
          error.message.includes(refusal),
        error.message,
      )
    }
    assert.equal((await chat(rig, {})).status, 200)
  })
  for (const what of ['ignores', 'refuses'] as const) {
    test(`${kind} that ${what} grammars is detected at the start: forced requests give 400, and others are answered`, async (t) => {
      const server = start()
      if (what === 'ignores') server.behaviour.ignoresGrammars = true
      else server.behaviour.refusesGrammar = refusal
      const rig = await opened(t, kind, server)
      const response = await chat(rig, { tool_choice: 'required' })
      assert.deepEqual(
        [response.status, ((await response.json()) as Fault).error.message],
        [
          400,
          `The engine ${kind} does not enforce grammars. Send the request without a schema and without a forced tool call.`,
        ],
      )
      assert.equal(server.asked(path).length, 0)
      assert.equal((await chat(rig, {})).status, 200)
    })
  }
}
