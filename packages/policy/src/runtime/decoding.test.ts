/** A model whose file has 4-bit blocks: the one-row decoder gives the same as the weights in float32. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { loadWeights } from '../checkpoints/open.ts'
import { initialLora } from '../lora.ts'
import { frozenConstants, packedConstants } from '../parameters.ts'
import { uniform } from '../random.ts'
import { Decoder } from './decoding.ts'
import { KvCache } from './cache.ts'
import { createOnnxBackend } from './onnx.ts'
import { LLAMA, smallGguf } from '../../../../test/kit/small-gguf.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-packed-'))
after(() => {
  rmSync(folder, { recursive: true, force: true })
})

const file = path.join(folder, 'model.gguf')
writeFileSync(file, smallGguf(LLAMA, 'q4_1'))
const { config, weights } = loadWeights(file)
const constants = frozenConstants(config, weights)

test('stacked blocks are the concatenated blocks of the parts', () => {
  const packed = packedConstants(config, weights)
  for (const [name, { shape }] of constants) {
    const found = packed(name)
    assert.equal(found !== null, /\.(qkv|o|gate_up|down)\.weight$/.test(name), name)
    if (found) assert.deepEqual(found.shape, shape)
  }
  assert.equal(
    packedConstants(config, { names: () => weights.names(), get: (name) => weights.get(name) })(
      'model.layers.0.qkv.weight',
    ),
    null,
  )
  const mixed = packedConstants(config, {
    ...weights,
    packed: (name) => (name.includes('k_proj') ? null : weights.packed!(name)),
  })
  assert.equal(mixed('model.layers.0.qkv.weight'), null)
  assert.notEqual(mixed('model.layers.0.o.weight'), null)
})

test('decoding one token at a time with blocks, base and adapter equals the whole sequence in float32', async () => {
  const backend = await createOnnxBackend({ threads: 1, blocks: true })
  const [plain, blocks] = [
    await Decoder.create(backend, config, constants),
    await Decoder.create(backend, config, constants, packedConstants(config, weights)),
  ]
  const next = uniform(7)
  const lora = initialLora(config, 4, 8, 1)
  for (const { b } of lora.modules.values())
    b.data.forEach((_, i) => {
      b.data[i] = 0.1 * next()
    })
  for (const decoder of [plain, blocks]) decoder.setAdapterSlot(0, lora)
  const ids = Int32Array.from({ length: 40 }, () => Math.floor(next() * config.vocabulary))
  for (const slot of [null, 0]) {
    const whole = await plain.step({ ids, T: 40, cache: new KvCache(config, 1), rowSlots: [slot], logits: 'all' })
    const cache = new KvCache(config, 1)
    let [worst, changed] = [0, 0]
    for (const [t, id] of ids.entries()) {
      const { logits, vocabulary } = await blocks.step({ ids: Int32Array.of(id), T: 1, cache, rowSlots: [slot] })
      logits.forEach((value, v) => {
        const difference = Math.abs(value - whole.logits[t * vocabulary + v]!)
        worst = Math.max(worst, difference)
        if (difference > 0) changed++
      })
    }
    assert.ok(worst < 1e-4, `logits differ by ${worst}`)
    assert.ok(changed > 0, 'the blocks were read')
  }
  await backend.dispose()
})
