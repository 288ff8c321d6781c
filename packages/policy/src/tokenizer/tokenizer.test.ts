import { test } from 'node:test'
import assert from 'node:assert/strict'
import { Tokenizer as Library } from '@huggingface/tokenizers'
import { InstarError } from '@instar/events/errors'
import { uniform } from '../serve/random.ts'
import { byteAlphabet } from './bytes.ts'
import { Detokenizer } from './detokenizer.ts'
import { TextTokenizer } from './tokenizer.ts'

const added = (id: number, content: string, special: boolean, more: Record<string, boolean> = {}) => ({
  id,
  content,
  special,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  ...more,
})

/** Bytes, a few merges (one of which spells the control token `ab`), and four added tokens. */
function json(): Record<string, unknown> {
  const vocab = Object.fromEntries(byteAlphabet().map((character, id) => [character, id]))
  for (const [i, token] of ['th', 'the', 'Ġthe', 'Ã©', 'ab'].entries()) vocab[token] = 256 + i
  return {
    version: '1.0',
    normalizer: null,
    post_processor: null,
    added_tokens: [
      added(300, '<|end|>', true),
      added(301, '<tool>', false),
      added(302, '<|end|>>', true),
      added(303, '[trim]', true, { lstrip: true, rstrip: true }),
      added(260, 'ab', true),
    ],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      vocab,
      merges: ['t h', 'th e', 'Ġ the', 'Ã ©', 'a b'],
    },
  }
}
const tokenizer = new TextTokenizer(json(), {})

/** Random Unicode text, surrogate pairs included, without lone surrogates. */
function randomText(seed: number, length: number): string {
  const ranges = [
    [32, 127],
    [0, 32],
    [0xa0, 0x250],
    [0x4e00, 0x4f00],
    [0x1f300, 0x1f700],
    [0x300, 0x340],
    [0xfdd0, 0xfdf0],
    [0x200b, 0x2070],
  ] as const
  let text = ''
  for (let i = 0; i < length; i++) {
    const [low, high] = ranges[Math.floor(uniform(seed, 2 * i) * ranges.length)]!
    text += String.fromCodePoint(low + Math.floor(uniform(seed, 2 * i + 1) * (high - low)))
  }
  return text
}

test('500 texts are decoded from their ids unchanged, at once and token by token', () => {
  for (let seed = 0; seed < 500; seed++) {
    const text = randomText(seed, 1 + (seed % 60))
    const ids = tokenizer.encode(text)
    assert.equal(tokenizer.decode(ids), text)
    const detokenizer = new Detokenizer(tokenizer)
    const pieces = ids.map((id) => detokenizer.push(id))
    assert.equal(pieces.join('') + detokenizer.end(), text)
    assert.ok(
      pieces.every((piece) => !piece.includes('�')),
      'no piece contains part of a character',
    )
  }
})

test('ids of an encoded text are cached, and each caller gets a copy', (t) => {
  const library = t.mock.method(Library.prototype, 'encode')
  const first = tokenizer.encode('the ab of it')
  const calls = library.mock.callCount()
  assert.ok(calls > 0)
  const again = tokenizer.encode('the ab of it')
  assert.equal(library.mock.callCount(), calls)
  assert.deepEqual(again, first)
  again.push(7)
  assert.deepEqual(tokenizer.encode('the ab of it'), first)
})

test('merges are applied in the order of their ranks', () => {
  assert.deepEqual(tokenizer.encode('the the'), [257, 258])
  assert.deepEqual(tokenizer.encode('é'), [259])
})

test('the bytes of an incomplete character are buffered until it is complete; an invalid one becomes one U+FFFD', () => {
  const bytes = [...new TextEncoder().encode('🎉')]
  const detokenizer = new Detokenizer(tokenizer)
  assert.deepEqual(
    bytes.map((byte) => detokenizer.push(byte)),
    ['', '', '', '🎉'],
  )
  const broken = new Detokenizer(tokenizer)
  assert.deepEqual([broken.push(bytes[0]!), broken.push(bytes[1]!), broken.push(65), broken.end()], ['', '', '�A', ''])
  const cut = new Detokenizer(tokenizer)
  assert.deepEqual([cut.push(bytes[0]!), cut.end()], ['', '�'])
  assert.equal(tokenizer.decode([bytes[0]!, bytes[1]!, 65]), '�A')
})

test('plain text never becomes a control token, even if merges produce one', () => {
  const ids = tokenizer.encode('x<|end|><tool>ab')
  assert.ok(ids.every((id) => id < 256))
  assert.deepEqual(ids.slice(-2), [97, 98])
})

test('in rendered text added tokens are recognised, longest first; marked ones are plain text, and marks are removed', () => {
  const mark = '\ufdd0'
  const splice = '\ufdd1'
  const encode = (text: string, spliced = new Map<number, number[]>()) =>
    tokenizer.encodeMarked(text, mark, splice, spliced)
  assert.deepEqual(encode('a<|end|>>b<tool><|end|>'), [97, 302, 98, 301, 300])
  const guarded = tokenizer.guard('<|end|>><tool>', mark, false)
  assert.deepEqual(encode(`a${guarded}`), tokenizer.encode('a<|end|>><tool>'))
  assert.deepEqual(encode(`a${tokenizer.guard('<|end|><tool>', mark, true)}`).at(-1), 301)
  assert.deepEqual(encode('a  [trim]\n b'), [97, 303, 98])
  assert.equal(encode(`${'x '.repeat(150_000)}<|end|>`).length, 300_001)
  assert.deepEqual(encode(`a${splice}7${splice}<|end|>`, new Map([[7, [1, 2, 260]]])), [97, 1, 2, 260, 300])
})

test('decoding omits special tokens and unknown ids, and keeps other added tokens', () => {
  assert.equal(tokenizer.decode([97, 300, 301, 9999, 98]), 'a<tool>b')
})

test('byte fallback and metaspace decoders are supported', () => {
  const vocab = { '<unk>': 0, '▁': 1, a: 2, '▁a': 3, '<0xF0>': 4, '<0x9F>': 5, '<0x8E>': 6, '<0x89>': 7 }
  const sentencePiece = new TextTokenizer(
    {
      added_tokens: [],
      normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      pre_tokenizer: null,
      post_processor: null,
      decoder: {
        type: 'Sequence',
        decoders: [
          { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
          { type: 'ByteFallback' },
          { type: 'Fuse' },
          { type: 'Strip', content: ' ', start: 1, stop: 0 },
        ],
      },
      model: { type: 'BPE', unk_token: '<unk>', byte_fallback: true, vocab, merges: ['▁ a'] },
    },
    {},
  )
  assert.deepEqual(sentencePiece.encode('a a🎉'), [2, 3, 4, 5, 6, 7])
  assert.equal(sentencePiece.decode([3, 3, 4, 5, 6, 7]), 'a a🎉')
})

for (const [name, change] of [
  ['no decoder', { decoder: null }],
  ['an unknown decoder', { decoder: { type: 'CTC' } }],
  ['an added token without content', { added_tokens: [{ id: 1 }] }],
  ['no model', { model: undefined }],
] as const) {
  test(`refused: ${name}`, () => {
    assert.throws(
      () => new TextTokenizer({ ...json(), ...change }, {}),
      (error: unknown) => error instanceof InstarError && error.code === 'bad_checkpoint',
    )
  })
}
