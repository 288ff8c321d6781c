import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { readWritten } from '@instar/events'
import { feedbackOf, model, sse, startRig, turnOf, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { logprobOf } from '../../../../test/kit/scripted-engine.ts'

const rig = await startRig({
  script: (_, prompt) =>
    prompt.includes('long') ? 'one two three four five six seven eight' : 'Hello there, how are you?',
})
after(() => rig.stop())

test('a whole answer names its version, turn and session, and its turn is on the log', async () => {
  const { data, response } = await rig.client.chat.completions
    .create({ model: 'policy', messages: [USER('Hi')] })
    .withResponse()
  assert.equal(data.object, 'chat.completion')
  assert.equal(data.choices[0]!.message.content, 'Hello there, how are you?')
  assert.equal(data.choices[0]!.finish_reason, 'stop')
  assert.equal(response.headers.get('x-instar-version'), '0')
  const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
  assert.equal(turn.type, 'TurnCaptured')
  assert.equal(turn.session, response.headers.get('x-instar-session-id'))
  assert.equal(turn.turn.startsWith(`${turn.session}.`), true)
  assert.equal(readWritten(turn.text), 'Hello there, how are you?')
  assert.deepEqual(turn.ids, [...model.encode('Hello there, how are you?'), model.endOfTurn[0]])
  assert.deepEqual(
    turn.logprobs.map((p) => Math.round(p * 10)),
    turn.ids.map((id) => Math.round(logprobOf(id) * 10)),
  )
  const prompt = model.promptIds([USER('Hi')], {})
  assert.deepEqual({ ...turn.prompt }, { from: null, prefix: 0, ids: prompt, length: prompt.length })
  assert.deepEqual(data.usage, {
    prompt_tokens: prompt.length,
    completion_tokens: turn.ids.length,
    total_tokens: prompt.length + turn.ids.length,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  })
  assert.equal(turn.trainable, true)
})

test('a stream has role, deltas, one finish, usage on request and [DONE]', async () => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], stream: true, stream_options: { include_usage: true } },
  })
  assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  assert.ok(response.headers.get('x-request-id'))
  const lines: string[] = []
  for await (const line of sse(response)) lines.push(line)
  assert.equal(lines.pop(), '[DONE]')
  const chunks = lines.map((line) => JSON.parse(line))
  assert.deepEqual(chunks[0].choices, [
    { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
  ])
  const usage = chunks.pop()
  assert.deepEqual(usage.choices, [])
  const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
  assert.equal(usage.usage.completion_tokens, turn.ids.length)
  const finish = chunks.pop()
  assert.deepEqual(finish.choices[0], { index: 0, delta: {}, logprobs: null, finish_reason: 'stop' })
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content).join(''), 'Hello there, how are you?')
  assert.ok(chunks.length > 3)
  for (const chunk of [...chunks, finish]) {
    assert.equal(chunk.usage, null)
    assert.equal(chunk.id, usage.id)
    assert.equal(chunk.object, 'chat.completion.chunk')
  }
})

test('the official client reads a stream', async () => {
  const stream = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [USER('a long one')],
    stream: true,
  })
  let text = ''
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
  assert.equal(text, 'one two three four five six seven eight')
})

test('max_tokens ends an answer with length, and max_completion_tokens has precedence', async () => {
  const answer = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [USER('a long one')],
    max_tokens: 9,
    max_completion_tokens: 3,
  })
  assert.equal(answer.choices[0]!.finish_reason, 'length')
  assert.equal(answer.usage!.completion_tokens, 3)
})

test('n candidates are turns of one group with seeds of their own', async () => {
  const { data, response } = await rig.client.chat.completions
    .create({ model: 'policy', messages: [USER('Hi')], n: 3, seed: 7 })
    .withResponse()
  assert.deepEqual(
    data.choices.map(({ index }) => index),
    [0, 1, 2],
  )
  const ids = response.headers.get('x-instar-turn-ids')!.split(',')
  assert.equal(ids[0], response.headers.get('x-instar-turn-id'))
  const turns = await Promise.all(ids.map((id) => turnOf(rig.log, id)))
  assert.equal(new Set(turns.map(({ group }) => group)).size, 1)
  assert.deepEqual(
    turns.map(({ candidate, candidates }) => [candidate, candidates]),
    [
      [0, 3],
      [1, 3],
      [2, 3],
    ],
  )
  assert.equal(new Set(turns.map(({ sampling }) => sampling.seed)).size, 3)
  assert.equal(turns[0]!.sampling.seed, 7)
})

test('n candidates are streamed in parallel, each with its role and finish', async () => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], stream: true, n: 2 },
  })
  const texts = ['', '']
  const finishes: number[] = []
  for await (const line of sse(response)) {
    if (line === '[DONE]') break
    const [choice] = JSON.parse(line).choices
    texts[choice.index] += choice.delta.content ?? ''
    if (choice.finish_reason) finishes.push(choice.index)
  }
  assert.deepEqual(texts, ['Hello there, how are you?', 'Hello there, how are you?'])
  assert.deepEqual(new Set(finishes), new Set([0, 1]))
  assert.equal(finishes.length, 2)
})

test('a request for more than a million log-probs is refused in every dialect, and nothing of it is captured', async () => {
  const wide = await startRig({ ports: { model: { ...model, contextLength: 131_072 } } })
  const status = async (path: string, body: object): Promise<number> =>
    (await wide.fetch(path, { json: { model: 'policy', ...body } })).status
  const chat = (body: object): Promise<number> =>
    status('/v1/chat/completions', { messages: [USER('Hi')], logprobs: true, ...body })
  const responses = (body: object): Promise<number> =>
    status('/v1/responses', { input: 'Hi', include: ['message.output_text.logprobs'], ...body })
  try {
    // 2 × 25,000 × (1 + 19) = 1,000,000
    const most = { n: 2, max_tokens: 25_000, top_logprobs: 19 }
    assert.deepEqual(
      [
        await chat(most),
        await chat({ ...most, logprobs: false, max_tokens: 100_000 }),
        await chat({ top_logprobs: 5 }),
        await responses({ max_output_tokens: 50_000, top_logprobs: 19 }),
      ],
      [200, 200, 200, 200],
    )
    const before = (await turnsOf(wide.log)).length
    assert.deepEqual(
      [
        await chat({ ...most, max_tokens: 25_001 }),
        await chat({ ...most, max_tokens: 25_001, stream: true }),
        await chat({ top_logprobs: 20 }),
        await responses({ max_output_tokens: 50_001, top_logprobs: 19 }),
      ],
      [400, 400, 400, 400],
    )
    assert.equal((await turnsOf(wide.log)).length, before)
  } finally {
    await wide.stop()
  }
})

test('logprobs have tokens and alternatives, whole and streamed', async () => {
  const whole = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [USER('Hi')],
    logprobs: true,
    top_logprobs: 1,
  })
  const content = whole.choices[0]!.logprobs!.content!
  assert.equal(content.map(({ token }) => token).join(''), 'Hello there, how are you?')
  assert.deepEqual(content[0]!.bytes, [...Buffer.from(content[0]!.token)])
  assert.equal(content[0]!.logprob, logprobOf(model.encode('Hello there, how are you?')[0]!))
  assert.equal(content[0]!.top_logprobs.length, 1)
  const stream = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [USER('Hi')],
    logprobs: true,
    stream: true,
  })
  const streamed: string[] = []
  for await (const chunk of stream)
    streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []).map(({ token }) => token))
  assert.deepEqual(
    streamed,
    content.map(({ token }) => token),
  )
})

test('sampling settings come from the request, else from the model', async () => {
  await rig.client.chat.completions.create({
    model: 'policy',
    messages: [USER('Hi')],
    temperature: 0.5,
    top_p: 0.9,
    seed: -3,
    stop: ['\n', 'END'],
  })
  const { sampling } = rig.engine.requests.at(-1)!
  assert.equal(sampling.temperature, 0.5)
  assert.equal(sampling.topP, 0.9)
  assert.deepEqual(sampling.stop, ['\n', 'END'])
  assert.ok(sampling.seed >= 0 && Number.isInteger(sampling.seed))
  await rig.client.chat.completions.create({ model: 'policy', messages: [USER('Hi')] })
  assert.equal(rig.engine.requests.at(-1)!.sampling.temperature, model.defaults.temperature)
})

test('turns that are not trained on have a reason', async () => {
  const reasonOf = async (body: object, headers: Record<string, string> = {}): Promise<string | null> => {
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')], ...body },
      headers,
    })
    await response.json()
    return (await turnOf(rig.log, response.headers.get('x-instar-turn-id'))).reason
  }
  assert.equal(await reasonOf({}), null)
  assert.equal(await reasonOf({ temperature: 0 }), 'greedy')
  assert.equal(await reasonOf({ temperature: 1e-40 }), 'greedy')
  assert.equal(await reasonOf({ temperature: 0.099 }), 'greedy')
  assert.equal(await reasonOf({ temperature: 0.1 }), null)
  assert.equal(await reasonOf({}, { 'x-instar-no-train': '1' }), 'opted_out')
  assert.equal(await reasonOf({}, { 'x-instar-turn-kind': 'side' }), 'side')
})

test('unknown and null fields are accepted', async () => {
  const response = await rig.fetch('/v1/chat/completions', {
    json: {
      model: 'policy',
      messages: [USER('Hi')],
      temperature: null,
      tools: null,
      stop: null,
      stream_options: null,
      store: false,
      reasoning_effort: 'low',
      chat_template_kwargs: { x: 1 },
      nonsense: [1],
    },
  })
  assert.equal(response.status, 200)
})

test('models are listed and retrieved', async () => {
  const list = await rig.client.models.list()
  assert.deepEqual(
    list.data.map(({ id }) => id),
    ['policy', 'policy@0'],
  )
  assert.equal((await rig.client.models.retrieve('policy@0')).id, 'policy@0')
  await assert.rejects(rig.client.models.retrieve('gpt-4'), { status: 404, code: 'model_not_found' })
})

test('feedback on a turn and on a session is on the log', async () => {
  const { response } = await rig.client.chat.completions
    .create({ model: 'policy', messages: [USER('Hi')] })
    .withResponse()
  const turn = response.headers.get('x-instar-turn-id')!
  const session = response.headers.get('x-instar-session-id')!
  const first = await rig.fetch('/v1/feedback', { json: { turn_id: turn, value: true, comment: 'nice' } })
  assert.equal(first.status, 200)
  const second = await rig.fetch('/v1/feedback', { json: { session_id: session, value: -0.5 } })
  assert.equal(second.status, 200)
  const given = (await feedbackOf(rig.log)).filter((event) => event.session === session)
  assert.deepEqual(
    given.map(({ turn: about, value, comment }) => [about, value, comment && readWritten(comment)]),
    [
      [turn, 1, 'nice'],
      [null, -0.5, null],
    ],
  )
})

test('a repeated Idempotency-Key is one feedback, and with another value it is refused', async () => {
  const { response } = await rig.client.chat.completions
    .create({ model: 'policy', messages: [USER('Hi')] })
    .withResponse()
  const session = response.headers.get('x-instar-session-id')!
  const give = async (value: number): Promise<[number, unknown]> => {
    const given = await rig.fetch('/v1/feedback', {
      json: { session_id: session, value },
      headers: { 'idempotency-key': 'mine' },
    })
    const { id, error } = (await given.json()) as { id?: string; error?: { param: string } }
    return [given.status, id ?? error?.param]
  }
  const [status, id] = await give(0.5)
  assert.equal(status, 200)
  assert.deepEqual(await give(0.5), [200, id])
  assert.deepEqual(await give(-1), [400, 'idempotency-key'])
  assert.deepEqual(
    (await feedbackOf(rig.log)).filter((event) => event.session === session).map(({ value }) => value),
    [0.5],
    'what is on the log is not written again',
  )
})

test('invalid feedback is refused', async () => {
  const codeOf = async (json: unknown): Promise<[number, string]> => {
    const response = await rig.fetch('/v1/feedback', { json })
    return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
  }
  const turn = (await turnsOf(rig.log))[0]!.turn
  assert.deepEqual(await codeOf({ turn_id: 'nobody.00', value: 1 }), [404, 'unknown_turn'])
  assert.deepEqual(await codeOf({ session_id: 'nobody', value: 1 }), [404, 'unknown_turn'])
  assert.deepEqual(await codeOf({ turn_id: turn, value: 2 }), [400, 'bad_request'])
  assert.deepEqual(await codeOf({ turn_id: turn, value: 'good' }), [400, 'bad_request'])
  assert.deepEqual(await codeOf({ value: 1 }), [400, 'bad_request'])
})
