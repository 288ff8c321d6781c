/** Arguments of tool calls are JSON in a text of the body: what they hold is bounded as the body is. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startRig } from '../../../../test/kit/gateway.ts'

const rig = await startRig()
after(() => rig.stop())

const LARGE = `{"list": [${'{},'.repeat(200_000)}{}]}`
const user = { role: 'user', content: 'Hi' }
const REQUESTS: readonly [path: string, body: object][] = [
  [
    'chat/completions',
    {
      messages: [
        user,
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: LARGE } }],
        },
        { role: 'tool', tool_call_id: 'c', content: 'done' },
      ],
    },
  ],
  [
    'responses',
    {
      input: [
        user,
        { type: 'function_call', call_id: 'c', name: 'f', arguments: LARGE },
        { type: 'function_call_output', call_id: 'c', output: 'done' },
      ],
    },
  ],
  [
    'responses/input_tokens',
    { input: [user, { type: 'function_call', call_id: 'c', name: 'f', arguments: LARGE }, user] },
  ],
]

for (const [path, body] of REQUESTS)
  test(`a request to ${path} whose tool calls hold 200,000 objects is refused`, async () => {
    const response = await rig.fetch(`/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'policy', ...body }),
    })
    const { error } = (await response.json()) as { error?: { code: string; message: string } }
    assert.equal(response.status, 400)
    assert.equal(error?.code, 'bad_request')
    assert.match(error.message, /arguments of the tool calls/)
  })
