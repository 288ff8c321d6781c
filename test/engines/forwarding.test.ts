/** What an engine of messages receives: known parts of a request only. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { textModel } from '@instar/engine'
import { model, turnsOf, USER } from '../kit/gateway.ts'
import { startRemoteRig, type RemoteRig } from './rig.ts'
import { ScriptedOpenai } from './scripted-openai.ts'

const opened = async (
  t: TestContext,
  accepts: readonly ('images' | 'files')[] = [],
): Promise<{ rig: RemoteRig; last(): Record<string, unknown> }> => {
  const server = new ScriptedOpenai(model, { say: () => 'Hello.' })
  await server.start()
  const rig = await startRemoteRig(`openai+${server.url}/v1`, { model: textModel('policy'), accepts })
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
      {
        role: 'system',
        content: [{ type: 'text', text: 'Be brief.', cache_control: { url: CANARY } }],
        image_url: CANARY,
      },
      {
        role: 'user',
        name: 'ann',
        content: [
          { type: 'text', text: 'Look', image_url: { url: CANARY }, file: { file_data: CANARY } },
          { type: 'picture', text: 'Again', video_url: { url: CANARY } },
        ],
        audio: { url: CANARY },
      },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Hm.',
        tool_calls: [
          { id: 'c', type: 'function', function: { name: 'read', arguments: '{}', url: CANARY }, extra: CANARY },
        ],
      },
      { role: 'tool', tool_call_id: 'c', content: 'Done.', image: CANARY },
      USER('And now?'),
    ],
    tools: [
      { type: 'function', function: { name: 'read', parameters: { type: 'object' } } },
      { type: 'mcp', server_label: 'x', server_url: CANARY },
    ],
  })
  const { messages, tools } = last()
  assert.deepEqual(messages, [
    { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look' },
        { type: 'text', text: 'Again' },
      ],
      name: 'ann',
    },
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'Hm.',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'read', arguments: '{}' } }],
    },
    { role: 'tool', content: 'Done.', tool_call_id: 'c' },
    { content: 'And now?', role: 'user' },
  ])
  assert.deepEqual(tools, [{ type: 'function', function: { name: 'read', parameters: { type: 'object' } } }])
  assert.equal(JSON.stringify(last()).includes(CANARY), false)
})

test('a text that spells a control token reaches the engine as text, in every place of messages and tools', async (t) => {
  const { rig, last } = await opened(t)
  const tokens = [
    '<|im_end|>',
    '<|im_start|>system',
    '<|eot_id|>',
    '<｜end▁of▁sentence｜>',
    '<end_of_turn>',
    '<eos>',
    '</s>',
    '[INST]',
    '[/INST]',
    '<<SYS>>',
    '[TOOL_CALLS]',
  ]
  const said = tokens.join(' ')
  await ask(rig, {
    messages: [
      USER(said),
      {
        role: 'assistant',
        content: [{ type: 'text', text: said }],
        reasoning_content: said,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify({ a: said }) } }],
      },
      { role: 'tool', tool_call_id: 'c', content: said },
    ],
    tools: [
      {
        type: 'function',
        function: {
          name: 'f',
          description: said,
          parameters: { type: 'object', properties: { [said]: { enum: [said] } } },
        },
      },
    ],
  })
  const went = JSON.stringify([last()['messages'], last()['tools']])
  for (const token of tokens) assert.equal(went.includes(token), false, token)
  // Eight places; nothing else changes.
  assert.equal(went.replaceAll('\u200b', '').split(said).length - 1, 8)
})

test('code, markup and comparisons are forwarded to the letter', async (t) => {
  const { rig, last } = await opened(t)
  const said = 'if (a <b || c|> d) <s1> <span> [INSTALL] <|> <| x\n|> <EOS> list[int] a<|b <<EOF'
  await ask(rig, { messages: [USER(said)] })
  assert.deepEqual(last()['messages'], [USER(said)])
})

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PDF = 'data:application/pdf;base64,JVBERi0='
const URL_OF_IMAGE = 'https://example.com/a.png'

test('images and files of every dialect reach an engine that is said to take them; such turns are on the log and not trained on', async (t) => {
  const { rig, last } = await opened(t, ['images', 'files'])
  const bodies: [path: string, body: object][] = [
    [
      'chat/completions',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Look' },
              { type: 'image_url', image_url: { url: PNG, more: CANARY }, more: CANARY },
              { type: 'image_url', image_url: { url: URL_OF_IMAGE } },
              { type: 'file', file: { filename: 'a.pdf', file_data: PDF, file_id: CANARY } },
            ],
          },
        ],
      },
    ],
    [
      'responses',
      {
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'Look' },
              { type: 'input_image', image_url: PNG },
              { type: 'input_image', image_url: URL_OF_IMAGE },
              { type: 'input_file', filename: 'a.pdf', file_data: PDF, file_url: CANARY },
            ],
          },
        ],
      },
    ],
    [
      'messages',
      {
        max_tokens: 9,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Look' },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=', url: CANARY } },
              { type: 'image', source: { type: 'url', url: URL_OF_IMAGE } },
              {
                type: 'document',
                title: 'a.pdf',
                source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
                context: 'c',
              },
            ],
          },
        ],
      },
    ],
  ]
  for (const [path, body] of bodies) {
    const response = await rig.fetch(`/v1/${path}`, { json: { model: 'policy', ...body } })
    const said = (await response.json()) as { usage: Record<string, number> }
    assert.equal(response.status, 200, JSON.stringify(said))
    assert.deepEqual(
      last()['messages'],
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: PNG } },
            { type: 'image_url', image_url: { url: URL_OF_IMAGE } },
            { type: 'file', file: { filename: 'a.pdf', file_data: PDF } },
          ],
        },
      ],
      path,
    )
    assert.equal(JSON.stringify(last()).includes(CANARY), false)
  }
  const turns = await turnsOf(rig.log)
  assert.deepEqual(
    turns.map((turn) => turn.type === 'TurnCaptured' && turn.trainable),
    [false, false, false],
  )
})

test('an image to an address, or to an engine that is not said to take images, is refused before anybody is asked', async (t) => {
  const { rig } = await opened(t, ['images'])
  const status = async (part: object): Promise<number> =>
    (
      await rig.fetch('/v1/chat/completions', {
        json: { model: 'policy', messages: [{ role: 'user', content: [part] }] },
      })
    ).status
  for (const url of [CANARY, 'https://169.254.169.254/latest', 'https://kafka:9092/', 'https://x.internal/'])
    assert.equal(await status({ type: 'image_url', image_url: { url }, text: 'Look' }), 400, url)
  assert.equal(await status({ type: 'file', file: { filename: 'a.pdf', file_data: PDF } }), 400, 'no files')
  assert.deepEqual(await turnsOf(rig.log), [])
})
