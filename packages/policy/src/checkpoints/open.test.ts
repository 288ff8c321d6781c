/** Models on disk: GGUF files and folders give the tensors and prompts that were written. */
import { after, test } from 'node:test'
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { requireBase, type WeightLine } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { loadWeights, openModel } from '../index.ts'
import { readSafetensors, writeSafetensors } from './safetensors.ts'
import type { ModelConfig, PackedTensor } from '../weights.ts'
import { CONFIG, writeRandomModel } from '../../../../test/kit/random-model.ts'
import type { Quantisation } from '../../../../test/kit/gguf-writer.ts'
import { LLAMA, smallGguf, smallWeights } from '../../../../test/kit/small-gguf.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-open-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const bad = (message: RegExp) => (error: unknown) =>
  error instanceof InstarError && error.code === 'bad_checkpoint' && message.test(error.message)

/** Half a step of the coarsest block, as a share of the largest value (about 1.2). */
const TOLERANCE: Record<Quantisation, number> = { f32: 0, f16: 0.0005, q8_0: 0.006, q4_1: 0.09 }
const QWEN3: ModelConfig = { ...LLAMA, qkNorm: true, tiedHead: false }

/** The values of blocks, one after another. */
const valuesOf = ({ codes, scales, minima }: PackedTensor): Float32Array =>
  Float32Array.from(
    { length: scales.length * 32 },
    (_, i) => scales[i >> 5]! * ((codes[i >> 1]! >> (i % 2 === 0 ? 0 : 4)) & 15) + minima[i >> 5]!,
  )

for (const [name, config] of [
  ['llama', LLAMA],
  ['qwen3', QWEN3],
] as const) {
  for (const type of ['f32', 'f16', 'q8_0', 'q4_1'] as const) {
    test(`a ${name} in ${type} has the tensor names of Hugging Face, with q and k in half-rotate order`, () => {
      const file = path.join(folder, `${name}-${type}.gguf`)
      const weights = smallWeights(config)
      writeFileSync(file, smallGguf(config, type, weights))
      const loaded = loadWeights(file)
      assert.deepEqual(loaded.config, config)
      assert.deepEqual([...loaded.weights.names()].sort(), [...weights.keys()].sort())
      let worst = 0
      for (const [tensor, { shape, data }] of weights) {
        const found = loaded.weights.get(tensor)
        assert.deepEqual(found.shape, shape)
        for (let i = 0; i < data.length; i++) worst = Math.max(worst, Math.abs(found.data[i]! - data[i]!))
        const packed = loaded.weights.packed?.(tensor) ?? null
        assert.equal(packed !== null, type === 'q4_1' && shape.length === 2)
        if (packed) assert.deepEqual(valuesOf(packed), found.data, tensor)
      }
      assert.ok(worst <= TOLERANCE[type], `off by ${worst}`)
      if (type !== 'f32') assert.ok(worst > 0)
    })
  }
}

test('a GGUF file gives tokenizer, template and end of turn', async () => {
  const file = path.join(folder, 'model.gguf')
  writeFileSync(file, smallGguf(LLAMA, 'q8_0'))
  const model = await openModel(file)
  assert.deepEqual([model.name, model.vocabulary, model.contextLength, model.endOfTurn], ['model', 259, 128, [258]])
  const text = 'héllo 🎉 12\r\n'
  assert.equal(model.decode(model.encode(text)), text)
  assert.deepEqual(
    model.promptIds([{ role: 'user', content: '<|im_end|>' }], {}).filter((id) => id > 255),
    [257, 258, 257],
  )
})

test('a renamed GGUF file is still the base of the versions of a log, and other bytes are not', async () => {
  const [first, renamed, other] = ['first', 'renamed', 'other'].map((name) => path.join(folder, `${name}.gguf`)) as [
    string,
    string,
    string,
  ]
  const bytes = smallGguf(LLAMA, 'q8_0')
  writeFileSync(first, bytes)
  cpSync(first, renamed)
  writeFileSync(
    other,
    Uint8Array.from(bytes, (byte, at) => (at === bytes.length - 1 ? byte ^ 1 : byte)),
  )
  const { name, sha256 } = await openModel(first)
  const line = { started: { base: { name, sha256 } } } as Pick<WeightLine, 'started'>
  requireBase(line, await openModel(first))
  requireBase(line, await openModel(renamed))
  const found = await openModel(other)
  assert.throws(() => requireBase(line, found), { code: 'other_base' })
  const tiny = await openModel('models/tiny')
  assert.throws(() => requireBase(line, tiny), { code: 'other_base' })
})

test('shards give the same model as one file', async () => {
  const [one, two] = [path.join(folder, 'one'), path.join(folder, 'two')]
  writeRandomModel(one)
  cpSync(one, two, { recursive: true })
  const tensors = [...readSafetensors(readFileSync(path.join(two, 'model.safetensors')))]
  rmSync(path.join(two, 'model.safetensors'))
  const parts = [tensors.slice(0, 5), tensors.slice(5)]
  const map: Record<string, string> = {}
  for (const [i, part] of parts.entries()) {
    const name = `model-0000${i + 1}-of-00002.safetensors`
    writeFileSync(path.join(two, name), writeSafetensors(new Map(part)))
    for (const [tensor] of part) map[tensor] = name
  }
  writeFileSync(path.join(two, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map: map }))
  const [a, b] = [loadWeights(one), loadWeights(two)]
  assert.deepEqual(a.config, { ...CONFIG })
  for (const name of a.weights.names()) assert.deepEqual(b.weights.get(name), a.weights.get(name))
  assert.notEqual((await openModel(one)).sha256, (await openModel(two)).sha256)
  writeFileSync(
    path.join(two, 'model.safetensors.index.json'),
    JSON.stringify({ weight_map: { x: '../one/model.safetensors' } }),
  )
  assert.throws(() => loadWeights(two), bad(/not a safetensors file in this folder/))
})

test('the sha256 of a model depends on its weights and its template alone', async () => {
  const at = writeRandomModel(path.join(folder, 'hashed'))
  const first = (await openModel(at)).sha256
  writeFileSync(path.join(at, 'README.md'), 'notes')
  assert.equal((await openModel(at)).sha256, first)
  const moved = path.join(folder, 'moved')
  renameSync(at, moved)
  assert.equal((await openModel(moved)).sha256, first)
  writeFileSync(path.join(moved, 'chat_template.jinja'), '{{ messages[0].content }}')
  const second = (await openModel(moved)).sha256
  assert.notEqual(second, first)
  const weights = readFileSync(path.join(moved, 'model.safetensors'))
  weights[weights.length - 1]! ^= 1
  writeFileSync(path.join(moved, 'model.safetensors'), weights)
  assert.notEqual((await openModel(moved)).sha256, second)
})

const edits: [string, (json: Record<string, unknown>) => void, RegExp][] = [
  [
    'another architecture',
    (json) => {
      json['model_type'] = 'mamba'
    },
    /model_type is "mamba"; supported are llama, qwen2, qwen3/,
  ],
  [
    'scaled RoPE',
    (json) => {
      json['rope_scaling'] = { rope_type: 'yarn', factor: 4 }
    },
    /RoPE scaling/,
  ],
  [
    'a missing number',
    (json) => {
      delete json['hidden_size']
    },
    /hidden_size is missing/,
  ],
  [
    'another size than the tensors',
    (json) => {
      json['intermediate_size'] = 65
    },
    /gate_proj.weight" has shape \[64, 32\]; the configuration requires \[65, 32\]/,
  ],
  [
    'more layers than there are',
    (json) => {
      json['num_hidden_layers'] = 3
    },
    /model.layers.2.input_layernorm.weight" is missing/,
  ],
  [
    'a million layers',
    (json) => {
      json['num_hidden_layers'] = 1000000
    },
    /layers/,
  ],
  [
    'a fraction',
    (json) => {
      json['head_dim'] = 7.5
    },
    /headDim is 7.5/,
  ],
]
for (const [name, edit, message] of edits) {
  test(`config.json is refused with ${name}`, () => {
    const at = writeRandomModel(path.join(folder, 'edited'))
    const json = JSON.parse(readFileSync(path.join(at, 'config.json'), 'utf8')) as Record<string, unknown>
    edit(json)
    writeFileSync(path.join(at, 'config.json'), JSON.stringify(json))
    assert.throws(() => loadWeights(at), bad(message))
  })
}
