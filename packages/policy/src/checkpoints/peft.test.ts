import { test } from 'node:test'
import assert from 'node:assert/strict'
import { InstarError } from '@instar/events/errors'
import { PROJECTIONS, projectionShape, type ModelConfig, type WeightTensor } from '../weights.ts'
import {
  adapterDistance,
  adapterFromWeights,
  moduleName,
  readAdapter,
  sha256,
  writeAdapter,
  type Lora,
} from './peft.ts'
import { readSafetensors, writeSafetensors, type Tensor } from './safetensors.ts'

const config: ModelConfig = {
  hiddenSize: 8,
  intermediateSize: 12,
  layers: 2,
  heads: 2,
  kvHeads: 1,
  headDim: 4,
  vocabulary: 16,
  contextLength: 8,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: false,
  attentionBias: false,
  tiedHead: true,
}
const tensor = (shape: number[], start: number): WeightTensor => ({
  shape,
  data: Float32Array.from({ length: shape[0]! * shape[1]! }, (_, i) => Math.sin(start + i)),
})

function lora(rank = 2): Lora {
  const modules = new Map<string, { a: WeightTensor; b: WeightTensor }>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const [i, projection] of PROJECTIONS.entries()) {
      const [out, inner] = projectionShape(config, projection)
      modules.set(moduleName(layer, projection), {
        a: tensor([rank, inner], layer * 10 + i),
        b: tensor([out, rank], layer * 20 + i),
      })
    }
  }
  return { rank, alpha: 4, modules }
}

const bad = (message: RegExp) => (error: unknown) =>
  error instanceof InstarError && error.code === 'bad_checkpoint' && message.test(error.message)

test('an adapter is read from its two files, and restored from its weights file', () => {
  const original = lora()
  const adapter = writeAdapter(original, 'tiny')
  assert.equal(adapter.sha256, sha256(adapter.weights))
  assert.deepEqual(readAdapter(adapter, config), original)
  assert.deepEqual(adapterFromWeights(adapter.weights), adapter)
})

test('equal numbers give equal bytes in any order of the modules', () => {
  const original = lora()
  assert.deepEqual(
    writeAdapter({ ...original, modules: new Map([...original.modules].reverse()) }, 'tiny'),
    writeAdapter(original, 'tiny'),
  )
  assert.notEqual(writeAdapter({ ...original, alpha: 8 }, 'tiny').sha256, writeAdapter(original, 'tiny').sha256)
})

test('tensor names and config fields are those of PEFT', () => {
  const adapter = writeAdapter(lora(), 'tiny')
  const names = [...readSafetensors(adapter.weights).keys()]
  assert.equal(names.length, 2 * 7 * 2)
  assert.ok(names.includes('base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight'))
  const json = JSON.parse(new TextDecoder().decode(adapter.config)) as Record<string, unknown>
  assert.deepEqual(
    [json['peft_type'], json['task_type'], json['r'], json['lora_alpha'], json['base_model_name_or_path']],
    ['LORA', 'CAUSAL_LM', 2, 4, 'tiny'],
  )
  assert.deepEqual(json['target_modules'], [
    'down_proj',
    'gate_proj',
    'k_proj',
    'o_proj',
    'q_proj',
    'up_proj',
    'v_proj',
  ])
})

test('an adapter may have matrices for some projections only', () => {
  const original = lora()
  const some = { ...original, modules: new Map([...original.modules].filter(([name]) => name.endsWith('q_proj'))) }
  assert.deepEqual(readAdapter(writeAdapter(some, 'tiny'), config), some)
})

function edited(edit: (tensors: Map<string, Tensor>) => void): () => unknown {
  const tensors = readSafetensors(writeAdapter(lora(), 'tiny').weights)
  edit(tensors)
  const weights = writeSafetensors(tensors, new Map([['lora_alpha', '4']]))
  return () => readAdapter(adapterFromWeights(weights), config)
}
const Q = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'

test('an adapter with wrong shapes, values, tensors or sha256 is refused', () => {
  assert.throws(
    edited((tensors) => tensors.delete(Q)),
    bad(/q_proj.lora_A.weight" is missing/),
  )
  assert.throws(
    edited((tensors) => tensors.set(Q, { dtype: 'F32', shape: [2, 7], data: new Float32Array(14) })),
    bad(/\[2, 7\]; the model requires \[2, 8\]/),
  )
  assert.throws(
    edited((tensors) => tensors.set(Q, { dtype: 'F32', shape: [2, 8], data: new Float32Array(16).fill(NaN) })),
    bad(/not finite/),
  )
  assert.throws(
    edited((tensors) => tensors.set('extra', { dtype: 'F32', shape: [1], data: new Float32Array(1) })),
    bad(/"extra" belongs to no projection/),
  )
  assert.throws(
    edited((tensors) => tensors.clear()),
    bad(/no LoRA matrices/),
  )
  const adapter = writeAdapter(lora(), 'tiny')
  assert.throws(
    () => readAdapter({ ...adapter, sha256: '0'.repeat(64) }, config),
    bad(/the weights of 0{64} have sha256/),
  )
  const dora = new TextEncoder().encode(
    new TextDecoder().decode(adapter.config).replace('"use_dora": false', '"use_dora": true'),
  )
  assert.throws(() => readAdapter({ ...adapter, config: dora }, config), bad(/use_dora is not supported/))
})

test('the distance of two adapters is the relative distance of their B matrices', () => {
  const learned = (scale: number): Uint8Array => {
    const matrix = (rows: number, columns: number, value: number) => ({
      shape: [rows, columns],
      data: new Float32Array(rows * columns).fill(value),
    })
    return writeAdapter(
      {
        rank: 2,
        alpha: 4,
        modules: new Map([['model.layers.0.self_attn.q_proj', { a: matrix(2, 4, scale * 7), b: matrix(4, 2, scale) }]]),
      },
      'base',
    ).weights
  }
  assert.equal(adapterDistance(learned(1), learned(1)), 0)
  assert.equal(adapterDistance(learned(1.5), learned(1)), 0.5)
  assert.equal(adapterDistance(learned(1), learned(0)), Infinity)
  assert.equal(adapterDistance(learned(0), learned(0)), 0)
})
