import { test } from 'node:test'
import assert from 'node:assert/strict'
import { help, optionsOf } from './options.ts'
import { partsOf, roomFor } from './parts.ts'
import { patched, PATCHES } from './patches.ts'
import { compilations, recipeText } from './recipe.ts'

test('options are parsed; unknown options, missing values and contradictions are refused', () => {
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

test('every part has a digest in the format of its registry; a build that downloads requires more free space', () => {
  for (const part of [...partsOf('cpu'), ...partsOf('gpu')])
    assert.match(
      part.digest,
      part.from === 'pypi' ? /^sha256-[0-9a-f]{64}$/ : /^sha512-[A-Za-z0-9+/]{86}==$/,
      part.name,
    )
  for (const kind of ['cpu', 'gpu'] as const) assert.ok(roomFor(kind, false) > roomFor(kind, true))
})

test('a patch is refused unless its pattern matches exactly once', () => {
  const patch = { file: 'f.cc', pattern: /take\(\w+\)/, replacement: 'copy($&)', why: 'test' }
  assert.equal(patched('a take(b) c', patch), 'a copy($&) c')
  for (const text of ['a', 'take(a) take(b)']) assert.throws(() => patched(text, patch), RangeError)
  assert.deepEqual(
    [...new Set(PATCHES.map(({ file }) => file))],
    ['dist/nodejs_kernel_backend.js', 'dist/kernels/TopK.js', 'binding/tfjs_backend.cc'],
  )
})

test('library search paths are relative to the addon; the GPU build is linked with the CUDA libraries', () => {
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

test('the recipe depends on the kind and on the source of the addon', () => {
  const texts = [recipeText('cpu', 'a'), recipeText('cpu', 'b'), recipeText('gpu', 'a')]
  assert.equal(new Set(texts).size, 3)
  assert.equal(recipeText('cpu', 'a'), texts[0])
})
