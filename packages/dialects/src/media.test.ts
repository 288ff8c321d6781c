import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events'
import { DIALECTS } from './dialects.ts'
import { MEDIA } from './fields.ts'
import { ALL_MEDIA, mediaPart, type AcceptedMedia } from './media.ts'

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PDF = 'data:application/pdf;base64,JVBERi0='
const USER = (content: unknown) => ({ role: 'user', content })
const bad =
  (field: string) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === 'bad_request' && error.details['field'] === field

test("each dialect's images and files become the same parts, without unknown fields", () => {
  const conversations = [
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
      ALL_MEDIA,
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
      ALL_MEDIA,
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
      ALL_MEDIA,
    ),
  ].map(({ messages }) => messages)
  const expected = (detail: object) =>
    USER([
      { type: 'text', text: 'Look' },
      { type: 'image_url', image_url: { url: PNG, ...detail } },
      { type: 'file', file: { filename: 'a.pdf', file_data: PDF } },
    ])
  assert.deepEqual(
    conversations.map(([message]) => ({
      role: message!.role,
      content: (message!.content as { type: string }[]).map((part) =>
        part.type === 'input_text' ? { ...part, type: 'text' } : part,
      ),
    })),
    [expected({ detail: 'low' }), expected({ detail: 'low' }), expected({})],
  )
})

test('tool results accept images; assistant and system messages do not', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
  const { messages } = DIALECTS.messages.request(
    {
      max_tokens: 1,
      messages: [USER([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'Seen' }, image] }])],
    },
    ALL_MEDIA,
  )
  const part = { type: 'image_url', image_url: { url: PNG } }
  assert.deepEqual(messages, [{ role: 'tool', tool_call_id: 't', content: [{ type: 'text', text: 'Seen' }, part] }])
  const output = DIALECTS.responses.request(
    { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: PNG }] }] },
    ALL_MEDIA,
  )
  assert.deepEqual(output.messages, [{ role: 'tool', tool_call_id: 'c', content: [part] }])
  for (const role of ['system', 'assistant'])
    assert.throws(
      () => DIALECTS.chat.request({ messages: [{ role, content: [part] }, USER('Hi')] }, ALL_MEDIA),
      bad('messages[0].content[0]'),
      role,
    )
  assert.throws(
    () =>
      DIALECTS.responses.request(
        { input: [{ role: 'assistant', content: [{ type: 'input_image', image_url: PNG }] }] },
        ALL_MEDIA,
      ),
    bad('input[0].content[0]'),
  )
  assert.throws(
    () => DIALECTS.messages.request({ max_tokens: 1, system: [image], messages: [USER('Hi')] }, ALL_MEDIA),
    bad('system[0]'),
  )
})

test('a stored body with an image is read in each dialect', () => {
  const text = { type: 'text', text: 'Look' }
  const conversations = [
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
  for (const messages of conversations)
    assert.deepEqual([messages.length, (messages[0]!.content as { text?: string }[])[0]!.text], [1, 'Look'])
})

const acceptedUrl = (url: unknown): unknown =>
  (mediaPart({ type: 'image_url', image_url: { url } }, 'p', ['images'])['image_url'] as { url: unknown }).url

test("an image's URL is https with a public host name; IP addresses and local names are refused in every notation", () => {
  for (const url of [PNG, 'https://example.com/a.png?b=c', 'https://cdn.images.example.co.uk:8443/a'])
    assert.equal(acceptedUrl(url), url)
  assert.equal(acceptedUrl('https:\\\\EXAMPLE.com\\a'), 'https://example.com/a', 'normalized')
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
  for (const url of refused) assert.throws(() => acceptedUrl(url), bad('p.image_url'), String(url))
})

test('a file is base64 with a name; ids and URLs of stored files are refused', () => {
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

test('a file of 24 MiB (32 MiB of base64) is accepted', () => {
  const file_data = `data:application/pdf;base64,${'A'.repeat(32 * 1024 * 1024)}`
  assert.deepEqual(mediaPart({ type: 'input_file', filename: 'a', file_data }, 'p', ALL_MEDIA), {
    type: 'file',
    file: { filename: 'a', file_data },
  })
})

test('images are accepted with `images`, files with `files`, other media never', () => {
  const parts = {
    images: { type: 'image_url', image_url: { url: PNG } },
    files: { type: 'file', file: { filename: 'a', file_data: PDF } },
  }
  for (const [name, part] of Object.entries(parts)) {
    for (const accepts of [[], ['images'], ['files']] as AcceptedMedia[]) {
      if (accepts.some((one) => one === name)) mediaPart(part, 'p', accepts)
      else assert.throws(() => mediaPart(part, 'p', accepts), bad('p'))
    }
  }
  for (const type of MEDIA.filter((one) => !/image$|^image_url|^(?:input_)?file$|document/.test(one)))
    assert.throws(() => mediaPart({ type, text: 'x' }, 'p', ALL_MEDIA), bad('p'), type)
  for (const part of [
    { type: 'image_file', image_file: { file_id: 'file-1' } },
    { type: 'file_url', file_url: { url: 'https://example.com/a.pdf' } },
  ]) {
    const body = { messages: [USER([{ ...part, text: 'Look' }])] }
    assert.throws(() => DIALECTS.chat.request(body, ALL_MEDIA), bad('messages[0].content[0]'), part.type)
  }
})

test('a part of a media type is refused with its path, even if it has a text field', () => {
  // The last two are types of the Assistants API and of vLLM: they refer to stored files.
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
