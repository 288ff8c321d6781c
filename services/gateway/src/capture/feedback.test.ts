/** The turn of feedback: found by the id that the client got, in every dialect. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { decodeRecord, foldTurns, initialTurns, InstarError, type Logged, type TurnsEvent } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import {
  feedbackOf,
  sha256,
  startRig,
  USER,
  withAppend,
  type Rig,
  type RigOptions,
} from '../../../../test/kit/gateway.ts'

const CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
const TOOLS = [{ type: 'function', function: { name: 'read', parameters: { type: 'object', properties: {} } } }]
const KEYS = ['anna', 'bert'].map((id) => ({ id, sha256: sha256(Buffer.from(`sk-${id}`)) }))

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  const rig = await startRig(options)
  t.after(() => rig.stop())
  return rig
}
const ASKED = {
  '/v1/chat/completions': { model: 'policy', messages: [USER('Hi')] },
  '/v1/responses': { model: 'policy', input: 'Hi' },
  '/v1/messages': { model: 'policy', max_tokens: 90, messages: [USER('Hi')] },
} as const
const SHAPES = { '/v1/chat/completions': /^chatcmpl-/, '/v1/responses': /^resp/, '/v1/messages': /^msg/ } as const

type Given = { status: number; body: { turn_id: string; session_id: string; error?: { code: string } } }
const give = async (rig: Rig, turn: string, { value = 1, token = 'none' } = {}): Promise<Given> => {
  const response = await rig.fetch('/v1/feedback', {
    json: { turn_id: turn, value },
    headers: { authorization: `Bearer ${token}` },
  })
  return { status: response.status, body: (await response.json()) as Given['body'] }
}

test('the id of an answer names its turn in each dialect, whole and streamed', async (t) => {
  const rig = await rigOf(t)
  const expected: (string | null)[] = []
  for (const [path, body] of Object.entries(ASKED))
    for (const stream of [false, true]) {
      const answer = await rig.fetch(path, { json: { ...body, stream } })
      const id = /"id":\s?"([^"]+)"/.exec(await answer.text())?.[1] ?? ''
      assert.match(id, SHAPES[path as keyof typeof ASKED])
      const turn = answer.headers.get('x-instar-turn-id')
      assert.deepEqual(await give(rig, id).then(({ status, body: said }) => [status, said.turn_id, said.session_id]), [
        200,
        turn,
        answer.headers.get('x-instar-session-id'),
      ])
      expected.push(turn)
    }
  assert.deepEqual(
    (await feedbackOf(rig.log)).map(({ turn }) => turn),
    expected,
  )
})

test('the id of a tool call names the turn of the call', async (t) => {
  const rig = await rigOf(t, { script: () => CALL })
  const answer = await rig.fetch('/v1/chat/completions', { json: { ...ASKED['/v1/chat/completions'], tools: TOOLS } })
  const { choices } = (await answer.json()) as { choices: { message: { tool_calls: { id: string }[] } }[] }
  const { status, body } = await give(rig, choices[0]!.message.tool_calls[0]!.id)
  assert.deepEqual([status, body.turn_id], [200, answer.headers.get('x-instar-turn-id')])
})

test('feedback finds an answer of another gateway on the same log and of a session that is no longer in memory', async (t) => {
  const log = openMemoryLog()
  const [first, second] = [
    await rigOf(t, { log, settings: { sessions: 1 } }),
    await rigOf(t, { log, settings: { sessions: 1 } }),
  ]
  const ids: string[] = []
  const turns: (string | null)[] = []
  for (let i = 0; i < 3; i += 1) {
    const answer = await first.fetch('/v1/chat/completions', { json: ASKED['/v1/chat/completions'] })
    ids.push(((await answer.json()) as { id: string }).id)
    turns.push(answer.headers.get('x-instar-turn-id'))
  }
  const given = []
  for (const id of ids) given.push((await give(second, id)).body.turn_id)
  assert.deepEqual(given, turns)
})

test('feedback on an answer of another key, an unknown id or another session is refused and not on the log', async (t) => {
  const rig = await rigOf(t, { settings: { keys: KEYS } })
  const answer = await rig.fetch('/v1/chat/completions', {
    json: ASKED['/v1/chat/completions'],
    headers: { authorization: 'Bearer sk-anna' },
  })
  const { id } = (await answer.json()) as { id: string }
  const refused = async (turn: string, token: string): Promise<unknown[]> => {
    const { status, body } = await give(rig, turn, { token })
    return [status, body.error?.code]
  }
  assert.deepEqual(await refused(id, 'sk-bert'), [404, 'unknown_turn'])
  assert.deepEqual(await refused('chatcmpl-00112233445566778899aabbccddeeff', 'sk-anna'), [404, 'unknown_turn'])
  assert.deepEqual(await refused(`${id.slice(0, -3)}aa0`, 'sk-anna'), [404, 'unknown_turn'])
  const response = await rig.fetch('/v1/feedback', {
    json: { turn_id: id, session_id: 'elsewhere', value: 1 },
    headers: { authorization: 'Bearer sk-anna' },
  })
  assert.equal(response.status, 400)
  assert.deepEqual(await feedbackOf(rig.log), [])
  assert.deepEqual(await refused(id, 'sk-anna'), [200, undefined])
})

type Body = Record<string, unknown>
type Told = { status: number; body: Body; code: unknown }
const tell = async (rig: Rig, json: Body, key: string | null = null): Promise<Told> => {
  const headers: Record<string, string> = key === null ? {} : { 'idempotency-key': key }
  const response = await rig.fetch('/v1/feedback', { json, headers })
  const body = (await response.json()) as Body
  return { status: response.status, body, code: (body['error'] as { code?: string } | undefined)?.code }
}
const answered = async (rig: Rig, session?: string): Promise<string> => {
  const answer = await rig.fetch('/v1/chat/completions', {
    json: ASKED['/v1/chat/completions'],
    headers: session === undefined ? {} : { 'x-session-id': session },
  })
  await answer.text()
  return answer.headers.get('x-instar-turn-id')!
}

/** A log whose feedback waits for `release`; `appended` counts attempts. */
const held = () => {
  const waiting = Promise.withResolvers<void>()
  const began = Promise.withResolvers<void>()
  const twice = Promise.withResolvers<never>()
  twice.promise.catch(() => undefined)
  const state = { appended: 0 }
  const log = withAppend(openMemoryLog(), async (records, next) => {
    if (records.some((record) => record.schema.includes('FeedbackGiven'))) {
      state.appended += 1
      began.resolve()
      if (state.appended > 1) twice.reject(new Error('two pieces of feedback are appended'))
      await waiting.promise
    }
    return next()
  })
  return {
    log,
    state,
    began: began.promise,
    twice: twice.promise,
    release: () => waiting.resolve(),
    fail: (e: Error) => waiting.reject(e),
  }
}
/** Waits until `count` feedback requests run, or another one is appended. */
const running = async (rig: Rig, count: number, state: { appended: number }): Promise<void> => {
  for (let metrics = ''; state.appended < 2 && !metrics.includes(`\ninstar_feedback_running ${count}\n`);)
    metrics = await (await rig.fetch('/metrics')).text()
}

test('repeats of an Idempotency-Key that run at the same time are one record, and have its answer', async (t) => {
  const { log, state, began, release } = held()
  const rig = await rigOf(t, { log })
  const turn = await answered(rig)
  const first = tell(rig, { turn_id: turn, value: 1 }, 'one')
  await began
  const others = [tell(rig, { turn_id: turn, value: 1 }, 'one'), tell(rig, { turn_id: turn, value: true }, 'one')]
  await running(rig, 3, state)
  release()
  const { status, body } = await first
  assert.equal(status, 200)
  for (const other of others) assert.deepEqual([(await other).status, (await other).body], [200, body])
  assert.deepEqual([state.appended, (await feedbackOf(log)).map(({ id }) => id)], [1, [body['id']]])
  assert.deepEqual((await tell(rig, { turn_id: turn, value: 1 }, 'one')).body, body)
  assert.equal(state.appended, 1)
})

test('other feedback under an Idempotency-Key is refused, while the first is written and afterwards', async (t) => {
  const { log, twice, began, release } = held()
  const rig = await rigOf(t, { log })
  const [turn, next] = [await answered(rig, 's'), await answered(rig, 's')]
  const comment = 'Use plain text.'
  const first = tell(rig, { turn_id: turn, value: 1, comment }, 'one')
  await began
  const others: Body[] = [
    { turn_id: turn, value: -1, comment },
    { turn_id: turn, value: 1, comment: 'Use a list.' },
    { turn_id: turn, value: 1 },
    { turn_id: next, value: 1, comment },
  ]
  const refused = async (): Promise<void> => {
    for (const other of others) {
      const { status, code, body } = await tell(rig, other, 'one')
      assert.deepEqual([status, code], [400, 'bad_request'], JSON.stringify(other))
      assert.equal((body['error'] as { param?: string }).param, 'idempotency-key')
    }
  }
  await Promise.race([refused(), twice])
  release()
  assert.equal((await first).status, 200)
  await refused()
  assert.equal((await feedbackOf(log)).length, 1)
})

test('a repeat waits for a limited time, then its key is in use', async (t) => {
  const { log, twice, began, release } = held()
  const rig = await rigOf(t, { log, settings: { tailWaitMs: 100 } })
  const turn = await answered(rig)
  const first = tell(rig, { turn_id: turn, value: 1 }, 'one')
  await began
  const second = await Promise.race([tell(rig, { turn_id: turn, value: 1 }, 'one'), twice])
  assert.deepEqual([second.status, second.code], [409, 'idempotency_key_in_use'])
  release()
  assert.equal((await first).status, 200)
})

test('a repeat has the error of the feedback that it repeats; later the key can be used again', async (t) => {
  const { log, state, began, fail } = held()
  const rig = await rigOf(t, { log })
  const turn = await answered(rig)
  const first = tell(rig, { turn_id: turn, value: 1 }, 'one')
  await began
  const second = tell(rig, { turn_id: turn, value: 1 }, 'one')
  await running(rig, 2, state)
  fail(new InstarError('bad_record', 'The test refuses this record.'))
  for (const { status, code } of [await first, await second]) assert.deepEqual([status, code], [500, 'bad_record'])
  assert.equal(state.appended, 1)
  assert.equal((await tell(rig, { turn_id: turn, value: 1 }, 'one')).code, 'bad_record')
  assert.equal(state.appended, 2)
})

test('feedback that waits for the log is limited', async (t) => {
  const { log, state, began, release } = held()
  const rig = await rigOf(t, { log, settings: { maxHeld: 2 } })
  const turn = await answered(rig)
  const first = [tell(rig, { turn_id: turn, value: 1 }), tell(rig, { turn_id: turn, value: 1 }, 'one')]
  await began
  while (state.appended < 2) await rig.fetch('/health/live')
  assert.match(await (await rig.fetch('/metrics')).text(), /^instar_feedback_running 2$/m)
  for (const key of [null, 'one', 'two']) {
    const { status, code } = await tell(rig, { turn_id: turn, value: 1 }, key)
    assert.deepEqual([status, code], [503, 'log_full'])
  }
  release()
  for (const one of first) assert.equal((await one).status, 200)
  assert.equal((await feedbackOf(log)).length, 2)
})

test('of one Idempotency-Key at two gateways of a log at once both are written, and every reader counts the first', async (t) => {
  const { log, twice, began, release } = held()
  const [here, there] = [await rigOf(t, { log }), await rigOf(t, { log })]
  const turn = await answered(here)
  const first = tell(here, { turn_id: turn, value: 1 }, 'one')
  await began
  const second = tell(there, { turn_id: turn, value: -1 }, 'one')
  await assert.rejects(twice)
  release()
  assert.deepEqual([(await first).status, (await second).status], [200, 200])
  const written = await feedbackOf(log)
  assert.deepEqual([written.length, new Set(written.map(({ id }) => id)).size], [2, 1])

  const fold = initialTurns()
  const outcomes = new Map<string, number>()
  for await (const batch of log.read('turns'))
    for (const record of batch) {
      const outcome = foldTurns(fold, decodeRecord(record) as Logged<TurnsEvent>)
      const name = outcome.counted ? 'counted' : outcome.why
      outcomes.set(name, (outcomes.get(name) ?? 0) + 1)
    }
  assert.deepEqual([outcomes.get('repeat'), [...outcomes.keys()]], [1, ['counted', 'repeat']])
  assert.deepEqual(
    [...fold.turns.values()].flatMap(({ feedback }) => feedback.map(({ value }) => value)),
    [written[0]!.value],
  )
  for (const rig of [here, there, await rigOf(t, { log })]) {
    assert.equal((await tell(rig, { turn_id: turn, value: written[0]!.value }, 'one')).status, 200)
    assert.equal((await tell(rig, { turn_id: turn, value: written[1]!.value }, 'one')).status, 400)
  }
  assert.equal((await feedbackOf(log)).length, 2)
})
