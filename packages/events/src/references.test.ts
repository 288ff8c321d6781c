import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expandBody, expandIds, MAX_DEPTH, MAX_INLINE_BYTES, storeBody, storeIds } from './references.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('bodies', () => {
  it('stores what is new between the prefix and the suffix of an earlier one', () => {
    const tail = `],"tools":"${'x'.repeat(200)}"}`
    const first = bytes(`{"messages":[${'a'.repeat(300)}${tail}`)
    const second = bytes(`{"messages":[${'a'.repeat(300)},"new"${tail}`)
    const { stored, depth } = storeBody(second, { turn: 't', content: first, depth: 0 })
    assert.equal(new TextDecoder().decode(stored.written.bytes), ',"new"')
    assert.equal(depth, 1)
    assert.deepEqual(expandBody(stored, stored.written.bytes, first), second)
  })

  it('overlapping prefix and suffix do not count a byte twice', () => {
    const first = bytes('a'.repeat(100))
    const second = bytes('a'.repeat(150))
    const { stored } = storeBody(second, { turn: 't', content: first, depth: 0 })
    assert.equal(stored.prefix + stored.suffix, 100)
    assert.deepEqual(expandBody(stored, stored.written.bytes, first), second)
  })

  it('makes a full copy behind MAX_DEPTH references, and a blob of a long middle', () => {
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
  it('refer to what was said before, exactly', () => {
    const spoken = Array.from({ length: 40 }, (_, i) => i)
    const prompt = [...spoken, 100, 101]
    const { stored } = storeIds(prompt, { turn: 't', content: spoken, depth: 2 })
    assert.deepEqual(stored, { from: 't', prefix: 40, ids: [100, 101], length: 42 })
    assert.deepEqual(expandIds(stored, spoken), prompt)
    assert.equal(storeIds([9, 9], { turn: 't', content: spoken, depth: 0 }).stored.from, null)
  })
})

it('what is repeated is found to the byte, however long it is', () => {
  const base = Uint8Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 251)
  for (const at of [0, 1, 63, 4095, 4096, 4097, 9000, 19_998]) {
    const other = base.slice()
    other[at] = 255
    const { stored, middle } = storeBody(other, { turn: 't', content: base, depth: 0 })
    assert.deepEqual([stored.prefix, stored.suffix, middle.length], [at, base.length - at - 1, 1])
    assert.deepEqual(expandBody(stored, middle, base), other)
  }
})
