import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { torchPickle } from './torch-pickle.ts'
import { tensorsOf } from './safetensors-floats.ts'

/** A safetensors file of these tensors, in this order. */
const file = (tensors: readonly [name: string, dtype: string, shape: number[], hex: string][]): Uint8Array => {
  let at = 0
  const header = Object.fromEntries(
    tensors.map(([name, dtype, shape, hex]) => {
      const data_offsets = [at, (at += hex.length / 2)]
      return [name, { dtype, shape, data_offsets }]
    }),
  )
  const json = Buffer.from(JSON.stringify({ __metadata__: { format: 'pt' }, ...header }))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  return Buffer.concat([length, json, ...tensors.map(([, , , hex]) => Buffer.from(hex, 'hex'))])
}

test('the pickle of three tensors is, byte for byte, the one that SGLang 0.5.23 decoded to the same tensors', () => {
  // Decoded on 2026-11-27 by `SafeUnpickler` of the wheel with torch 2.13.0: names, dtypes, shapes and bits are equal.
  const bytes = torchPickle(
    file([
      [
        'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight',
        'F32',
        [2, 3],
        '0000003f000080bf00000040000050406042a20d00000080',
      ],
      ['base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight', 'BF16', [3, 2], 'c03f204040c00000803f0040'],
      ['x', 'F16', [2], '003e00c1'],
    ]),
  )
  assert.deepEqual(
    [bytes.length, createHash('sha256').update(bytes).digest('hex')],
    [1204, '4d1d16962d1c146188e9e2c3b0ebae1219d4aa644290d3cb28a7ff2f79b2f2cb'],
  )
})

test('a tensor of whole numbers, or with bytes that its shape has not, is refused with its name', () => {
  assert.throws(() => tensorsOf(file([['ids', 'I64', [1], '0000000000000000']])), /ids is I64, not F32, F16 or BF16/)
  assert.throws(() => tensorsOf(file([['a', 'F32', [2], '00000000']])), /a has 4 bytes, not those of its shape/)
})
