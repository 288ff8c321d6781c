/**
 * Damaged model files: opening one and reading all of it either succeeds (the damage is in numbers) or throws an
 * InstarError, within limits of time and memory.
 */
import { after, test } from 'node:test'
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { adapterFromWeights, loadWeights, openModel, readAdapter } from '../index.ts'
import { uniform } from '../serve/random.ts'
import { CONFIG, randomAdapter, writeRandomModel } from '../../../../test/kit/random-model.ts'
import { LLAMA, smallGguf } from '../../../../test/kit/small-gguf.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-fuzz-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const MUTATIONS = 600
const MAX_MS = 2000
const MAX_BYTES = 100 * 1024 * 1024

/** One kind of damage for each seed, most of it in the first `header` bytes. */
function damage(original: Uint8Array, header: number, seed: number): Uint8Array {
  let draws = 0
  const below = (n: number) => Math.floor(uniform(seed, draws++) * n)
  const bytes = original.slice()
  const view = new DataView(bytes.buffer)
  const place = () => (below(10) === 0 ? below(bytes.length) : below(Math.min(header, bytes.length)))
  switch (seed % 8) {
    case 0:
      return bytes.subarray(0, below(bytes.length))
    case 1: {
      for (let i = 1 + below(8); i > 0; i--) bytes[place()] = below(256)
      return bytes
    }
    case 2: {
      const at = Math.min(place(), bytes.length - 8)
      view.setBigUint64(at, [0n, 1n, 2n ** 63n, 2n ** 64n - 1n, 2n ** 32n, 2n ** 40n][below(6)]!, true)
      return bytes
    }
    case 3: {
      view.setUint32(Math.min(place(), bytes.length - 4), [0, 1, 0x7fffffff, 0xffffffff, 9, 12][below(6)]!, true)
      return bytes
    }
    case 4: {
      const [from, to, length] = [place(), place(), 1 + below(64)]
      bytes.copyWithin(to, from, from + length)
      return bytes
    }
    case 5: {
      const at = place()
      const length = 1 + below(32)
      const out = new Uint8Array(bytes.length + length)
      out.set(bytes.subarray(0, at))
      for (let i = 0; i < length; i++) out[at + i] = below(256)
      out.set(bytes.subarray(at), at + length)
      return out
    }
    case 6: {
      const at = place()
      const length = 1 + below(32)
      const out = new Uint8Array(Math.max(0, bytes.length - length))
      out.set(bytes.subarray(0, at).subarray(0, out.length))
      out.set(
        bytes.subarray(Math.min(bytes.length, at + length)).subarray(0, Math.max(0, out.length - at)),
        Math.min(at, out.length),
      )
      return out
    }
    default: {
      for (let i = 1 + below(3); i > 0; i--) bytes[place()]! ^= 1 << below(8)
      // Replacing a digit keeps the JSON valid and makes sizes wrong.
      for (let tries = 0; tries < 200; tries++) {
        const at = place()
        if (bytes[at]! >= 48 && bytes[at]! <= 57) {
          bytes[at] = 48 + below(10)
          break
        }
      }
      return bytes
    }
  }
}

/** Reads every damaged copy; returns how many were refused. */
async function refusals(
  original: Uint8Array,
  header: number,
  read: (bytes: Uint8Array) => Promise<void>,
  mutations = MUTATIONS,
): Promise<number> {
  await read(original)
  let refused = 0
  for (let seed = 0; seed < mutations; seed++) {
    const bytes = damage(original, header, seed)
    const before = process.memoryUsage()
    const start = performance.now()
    try {
      await read(bytes)
    } catch (error) {
      if (!(error instanceof InstarError)) throw new Error(`mutation ${seed} was not recognised`, { cause: error })
      assert.ok(['bad_checkpoint', 'bad_request'].includes(error.code), `mutation ${seed}: ${error.code}`)
      assert.ok(error.message.length < 1000, `mutation ${seed}: a message of ${error.message.length} characters`)
      refused++
    }
    const used = process.memoryUsage()
    assert.ok(performance.now() - start < MAX_MS, `mutation ${seed} took ${performance.now() - start} ms`)
    const grown = used.heapUsed + used.arrayBuffers - before.heapUsed - before.arrayBuffers
    assert.ok(grown < MAX_BYTES, `mutation ${seed} took ${grown} bytes`)
  }
  return refused
}

async function readAll(target: string): Promise<void> {
  const { weights } = loadWeights(target)
  for (const name of weights.names()) weights.get(name)
  const model = await openModel(target)
  model.decode(model.promptIds([{ role: 'user', content: 'Hi, <|im_end|> 12' }], {}))
}

test('damaged GGUF files are read or refused with an InstarError', async () => {
  const file = path.join(folder, 'model.gguf')
  const original = smallGguf({ ...LLAMA, layers: 1 }, 'q8_0')
  const refused = await refusals(original, 6000, async (bytes) => {
    writeFileSync(file, bytes)
    await readAll(file)
  })
  assert.ok(refused > MUTATIONS / 2, `${refused} refused`)
})

test('damaged safetensors of a model folder are read or refused with an InstarError', async () => {
  writeRandomModel(folder, { ...CONFIG, layers: 1 })
  const file = path.join(folder, 'model.safetensors')
  const original = new Uint8Array(readFileSync(file))
  const refused = await refusals(original, 1800, async (bytes) => {
    writeFileSync(file, bytes)
    await readAll(folder)
  })
  writeFileSync(file, original)
  assert.ok(refused > MUTATIONS / 2, `${refused} refused`)
})

test('damaged adapters are read or refused with an InstarError', async () => {
  const config = { ...CONFIG, layers: 1 }
  const { weights } = randomAdapter(1, 4, config)
  const refused = await refusals(weights, 2500, async (bytes) => {
    readAdapter(adapterFromWeights(bytes), config)
  })
  assert.ok(refused > MUTATIONS / 2, `${refused} refused`)
})

for (const name of [
  'config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'generation_config.json',
  'chat_template.jinja',
]) {
  test(`a damaged ${name} of a model folder is read or refused with an InstarError`, async () => {
    writeRandomModel(folder, { ...CONFIG, layers: 1 })
    const file = path.join(folder, name)
    const original = new Uint8Array(readFileSync(file))
    await refusals(
      original,
      original.length,
      async (bytes) => {
        writeFileSync(file, bytes)
        await readAll(folder)
      },
      150,
    )
    writeFileSync(file, original)
  })
}
