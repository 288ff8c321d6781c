import { test } from 'node:test'
import assert from 'node:assert/strict'
import { help, optionsOf } from './options.ts'
import { partsOf, roomFor } from './parts.ts'
import { patched, PATCHES } from './patches.ts'
import { compilations, recipeText } from './recipe.ts'

test('options, and what is not one', () => {
  assert.deepEqual(optionsOf([]), { kind: 'cpu', help: false, force: false, wheels: null, download: null })
  assert.deepEqual(optionsOf(['--gpu', '--force', '--wheels', 'there']), {
    kind: 'gpu',
    help: false,
    force: true,
    wheels: 'there',
    download: null,
  })
  assert.equal(optionsOf(['--download=a=b']).download, 'a=b')
  for (const words of [
    ['--cuda'],
    ['there'],
    ['--wheels'],
    ['--wheels', '--gpu'],
    ['--download='],
    ['--wheels', 'a', '--download', 'b'],
  ])
    assert.throws(() => optionsOf(words), { code: 'bad_request' }, words.join(' '))
  for (const word of ['--gpu', '--wheels', '--download', '--force', 'g++', 'python3'])
    assert.ok(help().includes(word), word)
})

test('every part has a digest of its kind; the room covers what is fetched', () => {
  for (const part of [...partsOf('cpu'), ...partsOf('gpu')])
    assert.match(
      part.digest,
      part.from === 'pypi' ? /^sha256-[0-9a-f]{64}$/ : /^sha512-[A-Za-z0-9+/]{86}==$/,
      part.name,
    )
  for (const kind of ['cpu', 'gpu'] as const) assert.ok(roomFor(kind, false) > roomFor(kind, true))
})

test('a patch changes its text once, and refuses another text', () => {
  const patch = { file: 'f.cc', find: /take\(\w+\)/, put: 'copy($&)', why: 'test' }
  assert.equal(patched('a take(b) c', patch), 'a copy($&) c')
  for (const text of ['a', 'take(a) take(b)']) assert.throws(() => patched(text, patch), RangeError)
  assert.deepEqual(
    [...new Set(PATCHES.map(({ file }) => file))],
    ['dist/nodejs_kernel_backend.js', 'dist/kernels/TopK.js', 'binding/tfjs_backend.cc'],
  )
})

test("the addon finds its libraries beside itself; for a GPU it is linked with CUDA's", () => {
  const paths = { headers: '/h', package: '/p', site: '/s', addon: '/a', environmentSource: '/e.cc' }
  const of = (kind: 'cpu' | 'gpu'): string =>
    compilations(kind, paths)
      .find(({ name }) => name === 'tfjs_binding')
      ?.args.join(' ') ?? ''
  assert.match(of('cpu'), /-Wl,-rpath,\$ORIGIN\/\.\.\/site\/tensorflow$/)
  assert.match(of('gpu'), /\/s\/nvidia\/cusolver\/lib\/libcusolver\.so\.11 /)
  assert.match(of('gpu'), /-Wl,-rpath,\$ORIGIN\/\.\.\/site\/tensorflow:\$ORIGIN\/\.\.\/site\/nvidia\/cublas\/lib:/)
  assert.doesNotMatch(of('cpu'), /nvidia/)
})

test('another source, kind or part is another recipe', () => {
  const texts = [recipeText('cpu', 'a'), recipeText('cpu', 'b'), recipeText('gpu', 'a')]
  assert.equal(new Set(texts).size, 3)
  assert.equal(recipeText('cpu', 'a'), texts[0])
})
