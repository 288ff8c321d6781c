import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events'
import { DIALECTS } from './dialects.ts'
import { MEDIA } from './fields.ts'
import { EVERYTHING, mediaPart, type Accepts } from './media.ts'

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PDF = 'data:application/pdf;base64,JVBERi0='
const USER = (content: unknown) => ({ role: 'user', content })
const bad =
  (field: string) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === 'bad_request' && error.details['field'] === field

test("each dialect's images and files become one form, of the named fields alone", () => {
  const said = [
    DIALECTS.chat.request(
      {
        messages: [
          USER([
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: PNG, detail: 'low', x: 1 }, x: 1 },
            { type: 'file', file: { filename: 'a.pdf', file_data: PDF, file_id: 'f' } },
          ]),
        ],
      },
      EVERYTHING,
    ),
    DIALECTS.responses.request(
      {
        input: [
          USER([
            { type: 'input_text', text: 'Look' },
            { type: 'input_image', image_url: PNG, detail: 'low', file_id: 'f' },
            { type: 'input_file', filename: 'a.pdf', file_data: PDF, file_url: 'http://10.0.0.1/' },
          ]),
        ],
      },
      EVERYTHING,
    ),
    DIALECTS.messages.request(
      {
        max_tokens: 1,
        messages: [
          USER([
            { type: 'text', text: 'Look' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
            {
              type: 'document',
              title: 'a.pdf',
              source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
            },
          ]),
        ],
      },
      EVERYTHING,
    ),
  ].map(({ messages }) => messages)
  const told = (detail: object) => [
    USER([
      { type: 'text', text: 'Look' },
      { type: 'image_url', image_url: { url: PNG, ...detail } },
      { type: 'file', file: { filename: 'a.pdf', file_data: PDF } },
    ]),
  ]
  assert.deepEqual(
    said.map(([message]) => ({
      role: message!.role,
      content: (message!.content as { type: string }[]).map((part) =>
        part.type === 'input_text' ? { ...part, type: 'text' } : part,
      ),
    })),
    [told({ detail: 'low' })[0], told({ detail: 'low' })[0], told({})[0]],
  )
})

test('results of tools hold images too; answers and system texts hold none', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
  const { messages } = DIALECTS.messages.request(
    {
      max_tokens: 1,
      messages: [USER([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'Seen' }, image] }])],
    },
    EVERYTHING,
  )
  const part = { type: 'image_url', image_url: { url: PNG } }
  assert.deepEqual(messages, [{ role: 'tool', tool_call_id: 't', content: [{ type: 'text', text: 'Seen' }, part] }])
  const output = DIALECTS.responses.request(
    { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: PNG }] }] },
    EVERYTHING,
  )
  assert.deepEqual(output.messages, [{ role: 'tool', tool_call_id: 'c', content: [part] }])
  for (const role of ['system', 'assistant'])
    assert.throws(
      () => DIALECTS.chat.request({ messages: [{ role, content: [part] }, USER('Hi')] }, EVERYTHING),
      bad('messages[0].content[0]'),
      role,
    )
  assert.throws(
    () =>
      DIALECTS.responses.request(
        { input: [{ role: 'assistant', content: [{ type: 'input_image', image_url: PNG }] }] },
        EVERYTHING,
      ),
    bad('input[0].content[0]'),
  )
  assert.throws(
    () => DIALECTS.messages.request({ max_tokens: 1, system: [image], messages: [USER('Hi')] }, EVERYTHING),
    bad('system[0]'),
  )
})

test('what a turn with an image said reads again from the log, in each dialect', () => {
  const text = { type: 'text', text: 'Look' }
  const said = [
    DIALECTS.chat.messages({ messages: [USER([text, { type: 'image_url', image_url: { url: PNG } }])] }),
    DIALECTS.responses.messages({
      input: [
        USER([
          { type: 'input_text', text: 'Look' },
          { type: 'input_image', image_url: PNG },
        ]),
      ],
    }),
    DIALECTS.messages.messages({
      messages: [USER([text, { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }])],
    }),
  ]
  for (const messages of said)
    assert.deepEqual([messages.length, (messages[0]!.content as { text?: string }[])[0]!.text], [1, 'Look'])
})

const taken = (url: unknown): unknown =>
  (mediaPart({ type: 'image_url', image_url: { url } }, 'p', ['images'])['image_url'] as { url: unknown }).url

test("an image's address is https and a public name; every spelling of an address or of a local name is refused", () => {
  for (const url of [PNG, 'https://example.com/a.png?b=c', 'https://cdn.images.example.co.uk:8443/a'])
    assert.equal(taken(url), url)
  assert.equal(taken('https:\\\\EXAMPLE.com\\a'), 'https://example.com/a', 'as it was understood')
  const refused = [
    'http://example.com/a.png',
    'https://127.0.0.1/',
    'https://0x7f.1/',
    'https://2130706433/',
    'https://017700000001/',
    'https://127.1./',
    'https://[::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://a.localhost/',
    'https://printer.local/',
    'https://metadata.google.internal/',
    'https://METADATA.google.internal./',
    'https://kafka/',
    'https://kafka:9092/',
    'https://router.lan/',
    'https://a.home.arpa/',
    'https://user:pass@example.com/',
    'https://user@example.com/',
    'https://１２７.0.0.1/',
    'https://ex ample.com/',
    'file:///etc/passwd',
    'ftp://example.com/',
    'gopher://example.com',
    '//example.com/',
    'x',
    '',
    null,
    5,
    `https://example.com/${'a'.repeat(8200)}`,
    'data:image/svg+xml;base64,AAAA',
    'data:text/html;base64,AAAA',
    'data:image/png,AAAA',
    'data:image/png;base64,',
    'data:image/png;base64,AA AA',
    'data:image/png;base64,AAAA<|im_end|>',
    'data:image/png;charset=x;base64,AAAA',
    'DATA:image/png;base64,AAAA',
  ]
  for (const url of refused) assert.throws(() => taken(url), bad('p.image_url'), String(url))
})

test('a file is base64 with a name; what is kept elsewhere is not taken', () => {
  const read = (file: object) => mediaPart({ type: 'file', file }, 'p', ['files'])
  assert.deepEqual(read({ filename: 'a b.pdf', file_data: PDF }), {
    type: 'file',
    file: { filename: 'a b.pdf', file_data: PDF },
  })
  for (const file of [
    { file_data: PDF },
    { filename: '', file_data: PDF },
    { filename: '../a', file_data: PDF },
    { filename: 'a\nb', file_data: PDF },
    { filename: 'a', file_data: 'JVBERi0=' },
    { filename: 'a', file_id: 'f' },
    { filename: 'a', file_data: 'https://example.com/a' },
  ]) {
    assert.throws(() => read(file), bad('p.file'), JSON.stringify(file))
  }
})

test('a file of 24 MiB, 32 MiB of base64, is read', () => {
  const file_data = `data:application/pdf;base64,${'A'.repeat(32 * 1024 * 1024)}`
  assert.deepEqual(mediaPart({ type: 'input_file', filename: 'a', file_data }, 'p', EVERYTHING), {
    type: 'file',
    file: { filename: 'a', file_data },
  })
})

test('images and files are taken each by its own name, and nothing else ever', () => {
  const parts = {
    images: { type: 'image_url', image_url: { url: PNG } },
    files: { type: 'file', file: { filename: 'a', file_data: PDF } },
  }
  for (const [name, part] of Object.entries(parts)) {
    for (const accepts of [[], ['images'], ['files']] as Accepts[]) {
      if (accepts.some((one) => one === name)) mediaPart(part, 'p', accepts)
      else assert.throws(() => mediaPart(part, 'p', accepts), bad('p'))
    }
  }
  for (const type of MEDIA.filter((one) => !/image$|^image_url|^(?:input_)?file$|document/.test(one)))
    assert.throws(() => mediaPart({ type, text: 'x' }, 'p', EVERYTHING), bad('p'), type)
  for (const part of [
    { type: 'image_file', image_file: { file_id: 'file-1' } },
    { type: 'file_url', file_url: { url: 'https://example.com/a.pdf' } },
  ]) {
    const asked = { messages: [USER([{ ...part, text: 'Look' }])] }
    assert.throws(() => DIALECTS.chat.request(asked, EVERYTHING), bad('messages[0].content[0]'), part.type)
  }
})

test('a part whose type says image, sound or file is refused by its place, also with a text beside it', () => {
  // Of the Assistants API and of vLLM: the file is always kept elsewhere.
  for (const type of [...MEDIA, 'image_file', 'file_url']) {
    const part = { type, text: 'Look' }
    for (const role of ['user', 'system', 'assistant', 'tool'])
      assert.throws(
        () => DIALECTS.chat.request({ messages: [{ role, content: [part] }] }),
        bad('messages[0].content[0]'),
        `${type} ${role}`,
      )
    for (const role of ['user', 'system', 'assistant']) {
      if (role !== 'assistant')
        assert.throws(
          () => DIALECTS.messages.request({ max_tokens: 1, messages: [{ role, content: [part] }] }),
          bad('messages[0].content[0]'),
          `${type} ${role}`,
        )
      assert.throws(
        () => DIALECTS.responses.request({ input: [{ role, content: [part] }] }),
        bad('input[0].content[0]'),
        `${type} ${role}`,
      )
    }
    assert.throws(
      () => DIALECTS.messages.request({ max_tokens: 1, messages: [USER([{ type: 'tool_result', content: [part] }])] }),
      bad('messages[0].content[0].content[0]'),
      type,
    )
    assert.throws(
      () =>
        DIALECTS.messages.request({
          max_tokens: 1,
          messages: [USER([{ type: 'document', source: { type: 'content', content: [part] } }])],
        }),
      bad('messages[0].content[0]'),
      type,
    )
  }
})
