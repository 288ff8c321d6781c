/**
 * `instar doctor agent`: the session and its source, joins and training of the last requests, without their content.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instar } from '../../../test/kit/cli.ts'
import { ADMIN_TOKEN, startRig, USER } from '../../../test/kit/gateway.ts'

type Row = {
  client: string
  dialect: string
  session: string
  label_source: string
  user_turn: string | null
  kind: string
  carried: string[]
  trainable: boolean | null
  reason: string | null
  follows: string | null
  turn: string
  next: string | null
  off_prefix: boolean
}

test('each request is listed with its session, the fields that identified it, and whether it is trained on', async () => {
  const rig = await startRig()
  const { port } = new URL(rig.url)
  const run = async (...args: string[]): Promise<string> => {
    const { code, out } = await instar(['doctor', 'agent', '--port', port, ...args], {
      INSTAR_ADMIN_TOKEN: ADMIN_TOKEN,
    })
    assert.equal(code, 0)
    return out
  }
  const ask = async (
    json: object,
    headers: Record<string, string> = {},
    path = '/v1/chat/completions',
  ): Promise<string> => {
    const response = await rig.fetch(path, {
      json: { model: 'policy', ...json },
      headers: { 'user-agent': 'agent/1.0 (secret place)', ...headers },
    })
    assert.equal(response.status, 200)
    const body = (await response.json()) as { choices?: { message: { content: string } }[] }
    return body.choices?.[0]?.message.content ?? ''
  }
  try {
    assert.match(await run(), /has had no request for an answer/)
    const answer = await ask({ messages: [USER('My secret question')] })
    await ask({ messages: [USER('My secret question'), { role: 'assistant', content: answer }, USER('Thanks')] })
    await ask(
      { messages: [USER('Hi')], max_tokens: 20, metadata: { user_id: 'me' } },
      {
        'x-claude-code-session-id': 'c-1',
        'x-claude-code-request-class': 'auxiliary',
        'x-claude-code-prompt-id': '00000000-0000-4000-8000-000000000002',
      },
      '/v1/messages',
    )
    const rows = JSON.parse(await run('--json')) as Row[]
    const [side, second, first] = rows
    assert.deepEqual(
      [
        side!.client,
        side!.dialect,
        side!.session,
        side!.label_source,
        side!.user_turn,
        side!.kind,
        side!.trainable,
        side!.reason,
      ],
      ['agent/1.0', 'messages', 'c-1', 'agent', '00000000-0000-4000-8000-000000000002', 'side', false, 'side'],
    )
    assert.deepEqual(side!.carried, [
      'x-claude-code-session-id',
      'x-claude-code-request-class',
      'x-claude-code-prompt-id',
      'metadata (body)',
    ])
    assert.deepEqual(
      [second!.session, second!.label_source, second!.follows, second!.trainable, second!.off_prefix],
      [first!.session, 'answer', first!.turn, true, false],
    )
    assert.deepEqual(
      [first!.label_source, first!.user_turn, first!.carried, first!.next],
      ['fingerprint', null, [], second!.turn],
    )
    const table = await run()
    assert.match(table, /agent\/1\.0 +messages +c-1 +header or field of the agent +00000000-0000 +side/)
    for (const text of [table, JSON.stringify(rows)]) assert.doesNotMatch(text, /secret|Thanks/)
  } finally {
    await rig.stop()
  }
})
