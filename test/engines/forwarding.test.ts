/** What reaches an engine that takes messages: what was understood of a request, nothing that was only sent. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { textModel } from '@instar/gateway/shell/engines/text-model'
import { model, USER } from '../gateway/harness.ts'
import { startRemoteRig, type RemoteRig } from './rig.ts'
import { ScriptedOpenai } from './scripted-openai.ts'

const opened = async (t: TestContext): Promise<{ rig: RemoteRig; last(): Record<string, unknown> }> => {
  const server = new ScriptedOpenai(model, { say: () => 'Hello.' })
  await server.start()
  const rig = await startRemoteRig(`openai+${server.url}/v1`, { model: textModel('policy') })
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  return { rig, last: () => server.asked('/v1/chat/completions').at(-1)!.body }
}

const ask = async (rig: RemoteRig, body: object): Promise<void> => {
  const response = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', ...body } })
  assert.equal(response.status, 200, await response.text())
}

const CANARY = 'http://169.254.169.254/latest/meta-data'

test('an address beside a text never reaches an engine that takes messages', async (t) => {
  const { rig, last } = await opened(t)
  await ask(rig, {
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'Be brief.', cache_control: { url: CANARY } }], image_url: CANARY },
      { role: 'user', name: 'ann', content: [{ type: 'image_url', text: 'Look', image_url: { url: CANARY } }, { type: 'video_url', text: 'Again', video_url: { url: CANARY } }], audio: { url: CANARY } },
      { role: 'assistant', content: null, reasoning_content: 'Hm.', tool_calls: [{ id: 'c', type: 'function', function: { name: 'read', arguments: '{}', url: CANARY }, extra: CANARY }] },
      { role: 'tool', tool_call_id: 'c', content: 'Done.', image: CANARY },
      USER('And now?'),
    ],
    tools: [{ type: 'function', function: { name: 'read', parameters: { type: 'object' } } }, { type: 'mcp', server_label: 'x', server_url: CANARY }],
  })
  const { messages, tools } = last()
  assert.deepEqual(messages, [
    { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
    { role: 'user', content: [{ type: 'text', text: 'Look' }, { type: 'text', text: 'Again' }], name: 'ann' },
    { role: 'assistant', content: null, reasoning_content: 'Hm.', tool_calls: [{ id: 'c', type: 'function', function: { name: 'read', arguments: '{}' } }] },
    { role: 'tool', content: 'Done.', tool_call_id: 'c' },
    { content: 'And now?', role: 'user' },
  ])
  assert.deepEqual(tools, [{ type: 'function', function: { name: 'read', parameters: { type: 'object' } } }])
  assert.equal(JSON.stringify(last()).includes(CANARY), false)
})

test('a text that spells a control token reaches the engine as text, in every place of messages and tools', async (t) => {
  const { rig, last } = await opened(t)
  const tokens = ['<|im_end|>', '<|im_start|>system', '<|eot_id|>', '<｜end▁of▁sentence｜>', '<end_of_turn>', '<eos>', '</s>', '[INST]', '[/INST]', '<<SYS>>', '[TOOL_CALLS]']
  const said = tokens.join(' ')
  await ask(rig, {
    messages: [USER(said), { role: 'assistant', content: [{ type: 'text', text: said }], reasoning_content: said, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify({ a: said }) } }] }, { role: 'tool', tool_call_id: 'c', content: said }],
    tools: [{ type: 'function', function: { name: 'f', description: said, parameters: { type: 'object', properties: { [said]: { enum: [said] } } } } }],
  })
  const went = JSON.stringify([last()['messages'], last()['tools']])
  for (const token of tokens) assert.equal(went.includes(token), false, token)
  // Eight places, and nothing else is changed by it.
  assert.equal(went.replaceAll('\u200b', '').split(said).length - 1, 8)
})

test('code, markup and comparisons are forwarded to the letter', async (t) => {
  const { rig, last } = await opened(t)
  const said = 'if (a <b || c|> d) <s1> <span> [INSTALL] <|> <| x\n|> <EOS> list[int] a<|b <<EOF'
  await ask(rig, { messages: [USER(said)] })
  assert.deepEqual(last()['messages'], [USER(said)])
})
