import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expandBody, expandIds, MAX_DEPTH, MAX_INLINE_BYTES, storeBody, storeIds } from './references.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('bodies', () => {
  it('store the bytes between the common prefix and suffix of an earlier body', () => {
    const tail = `],"tools":"${'x'.repeat(200)}"}`
    const first = bytes(`{"messages":[${'a'.repeat(300)}${tail}`)
    const second = bytes(`{"messages":[${'a'.repeat(300)},"new"${tail}`)
    const { stored, depth } = storeBody(second, { turn: 't', content: first, depth: 0 })
    assert.equal(new TextDecoder().decode(stored.written.bytes), ',"new"')
    assert.equal(depth, 1)
    assert.deepEqual(expandBody(stored, stored.written.bytes, first), second)
  })

  it('count no byte twice if prefix and suffix overlap', () => {
    const first = bytes('a'.repeat(100))
    const second = bytes('a'.repeat(150))
    const { stored } = storeBody(second, { turn: 't', content: first, depth: 0 })
    assert.equal(stored.prefix + stored.suffix, 100)
    assert.deepEqual(expandBody(stored, stored.written.bytes, first), second)
  })

  it('are stored in full after MAX_DEPTH references, and as a blob if the middle is long', () => {
    const body = bytes('b'.repeat(MAX_INLINE_BYTES + 1))
    const { stored, depth, middle } = storeBody(body, { turn: 't', content: body, depth: MAX_DEPTH })
    assert.equal(stored.from, null)
    assert.equal(depth, 0)
    assert.equal(stored.written.bytes.length, 0)
    assert.match(stored.blob ?? '', /^[0-9a-f]{64}$/)
    assert.equal(middle.length, body.length)
  })
})

describe('prompt ids', () => {
  it('reference prompt and completion of an earlier turn', () => {
    const earlier = Array.from({ length: 40 }, (_, i) => i)
    const prompt = [...earlier, 100, 101]
    const { stored } = storeIds(prompt, { turn: 't', content: earlier, depth: 2 })
    assert.deepEqual(stored, { from: 't', prefix: 40, ids: [100, 101], length: 42 })
    assert.deepEqual(expandIds(stored, earlier), prompt)
    assert.equal(storeIds([9, 9], { turn: 't', content: earlier, depth: 0 }).stored.from, null)
  })
})

it('common prefix and suffix are exact at block boundaries', () => {
  const base = Uint8Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 251)
  for (const at of [0, 1, 63, 4095, 4096, 4097, 9000, 19_998]) {
    const other = base.slice()
    other[at] = 255
    const { stored, middle } = storeBody(other, { turn: 't', content: base, depth: 0 })
    assert.deepEqual([stored.prefix, stored.suffix, middle.length], [at, base.length - at - 1, 1])
    assert.deepEqual(expandBody(stored, middle, base), other)
  }
})
