/** Whose answer feedback is about: by the id that the answer's client was given, whatever dialect it came in. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { feedbackOf, sha256, startRig, USER, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'

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
