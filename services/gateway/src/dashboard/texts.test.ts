import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRig, turnsOf, USER } from '../../../../test/kit/gateway.ts'

test('what a side request of an agent is for is said, and where each session begins', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  const ask = (session: string, messages: { role: 'system' | 'user'; content: string }[]) =>
    rig.client.chat.completions.create({ model: 'policy', messages }, { headers: { 'x-session-id': session } })
  await ask('one', [USER('Mend the tests.')])
  await ask('one', [
    { role: 'system', content: 'You are a title generator. You output ONLY a title.' },
    USER('Mend the tests.'),
  ])
  await ask('one', [
    { role: 'system', content: 'You are a context summarization agent.' },
    USER('Summarize the conversation.'),
  ])
  await ask('two', [USER(`What is 2 plus 2? ${'x'.repeat(300)}`)])
  const turns = await turnsOf(rig.log)
  const tasks = await Promise.all(
    turns.map(async ({ turn }) => {
      const response = await rig.fetch(`/v1/dashboard/turns/${turn}/text`)
      return ((await response.json()) as { task: string | null }).task
    }),
  )
  assert.deepEqual(tasks, [null, 'title', 'compaction', null])
  const beginnings = async (query: string): Promise<unknown> =>
    (await rig.fetch(`/v1/dashboard/beginnings?${query}`)).json()
  assert.deepEqual(await beginnings('session=one&session=two&session=none'), {
    one: 'Mend the tests.',
    two: `What is 2 plus 2? ${'x'.repeat(300)}`.slice(0, 160),
  })
  assert.deepEqual(await beginnings('session=two'), { two: `What is 2 plus 2? ${'x'.repeat(300)}`.slice(0, 160) })
  const many = (count: number): string => Array.from({ length: count }, (_, i) => `session=s${i}`).join('&')
  assert.deepEqual(await beginnings(many(50)), {})
  for (const query of ['', many(51), 'session=', 'other=1'])
    assert.equal((await rig.fetch(`/v1/dashboard/beginnings?${query}`)).status, 400, query.slice(0, 20))
})
