/** The rows of SECURITY.md, "Permissions": what a key of one scope may do, and what not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { Publisher, sha256, startRig, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { SCOPES } from './core/keys.ts'

const HELLO = { model: 'policy', messages: [USER('Hello')] }

test('each scope may do what its row says and nothing else; with read, texts of all keys', async (t) => {
  const log = openMemoryLog()
  await new Publisher(log).start()
  const keys = [
    ...SCOPES.map((scope) => ({ id: scope, scopes: [scope] })),
    { id: 'owner', scopes: ['inference'] as const },
  ]
  const rig = await startRig({
    log,
    settings: { keys: keys.map(({ id, scopes }) => ({ id, scopes: [...scopes], sha256: sha256(Buffer.from(id)) })) },
  })
  t.after(() => rig.stop())
  const as = (id: string, path: string, json?: object) =>
    rig.fetch(path, { ...(json ? { json } : {}), headers: { authorization: `Bearer ${id}` } })
  assert.equal((await as('owner', '/v1/chat/completions', HELLO)).status, 200)
  const [turn] = await turnsOf(log)
  const requests: Record<string, [path: string, json: object | undefined, may: readonly string[]]> = {
    'a request': ['/v1/chat/completions', HELLO, ['inference']],
    feedback: ['/v1/feedback', { turn_id: turn!.turn, value: true }, ['feedback']],
    'a command': ['/admin/freeze', {}, ['admin']],
    status: ['/admin/status', undefined, ['admin']],
    metrics: ['/metrics', undefined, ['admin']],
    figures: ['/v1/dashboard/now', undefined, ['read', 'admin']],
    "another key's text": [`/v1/dashboard/turns/${turn!.turn}/text`, undefined, ['read']],
    "another key's tokens": [`/v1/dashboard/turns/${turn!.turn}/tokens`, undefined, ['read']],
    'a search in all texts': ['/v1/dashboard/search?text=hello', undefined, ['read']],
    "another key's export": [`/v1/dashboard/sessions/${turn!.session}/export`, undefined, ['read']],
    steps: ['/submit_steps', {}, ['steps']],
  }
  for (const [what, [path, json, may]] of Object.entries(requests)) {
    const refused: string[] = []
    for (const scope of SCOPES) {
      const response = await as(scope, path, json)
      const body = await response.text()
      if (response.status === 403 && body.includes('missing_scope')) refused.push(scope)
    }
    assert.deepEqual(
      SCOPES.filter((scope) => !refused.includes(scope)),
      SCOPES.filter((scope) => may.includes(scope)),
      what,
    )
  }
  const text = (await (await as('read', `/v1/dashboard/turns/${turn!.turn}/text`)).json()) as { messages: object[] }
  assert.match(JSON.stringify(text.messages), /Hello/)
})
