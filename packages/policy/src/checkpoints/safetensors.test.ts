import { test } from 'node:test'
import assert from 'node:assert/strict'
import { InstarError } from '@instar/events/errors'
import { readSafetensors, readSafetensorsWithMetadata, writeSafetensors, type Tensor } from './safetensors.ts'
import { f16ToF32, f32ToF16 } from './float16.ts'

const f32 = (shape: number[], values: number[]): Tensor => ({ dtype: 'F32', shape, data: Float32Array.from(values) })

/** A file with the given header text over `data`. */
function file(header: string, data = new Uint8Array(0)): Uint8Array {
  const json = new TextEncoder().encode(header)
  const out = new Uint8Array(8 + json.length + data.length)
  new DataView(out.buffer).setBigUint64(0, BigInt(json.length), true)
  out.set(json, 8)
  out.set(data, 8 + json.length)
  return out
}

test('tensors and metadata are read as written; the bytes do not depend on their order', () => {
  const tensors = new Map<string, Tensor>([
    ['b', f32([3], [1.5, -2, 3e-38])],
    ['step', { dtype: 'I64', shape: [], data: BigInt64Array.of(-7n) }],
    ['10', f32([2, 1], [0, Infinity])],
    ['a', { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 255) }],
    ['empty', f32([0, 4], [])],
  ])
  const metadata = new Map([
    ['z', '1'],
    ['format', 'pt'],
  ])
  const bytes = writeSafetensors(tensors, metadata)
  assert.deepEqual(writeSafetensors(new Map([...tensors].reverse()), new Map([...metadata].reverse())), bytes)
  const read = readSafetensorsWithMetadata(bytes)
  assert.deepEqual([...read.tensors.keys()], ['step', '10', 'b', 'empty', 'a'])
  for (const [name, tensor] of tensors) assert.deepEqual(read.tensors.get(name), tensor)
  assert.deepEqual(
    read.metadata,
    new Map([
      ['format', 'pt'],
      ['z', '1'],
    ]),
  )
  assert.equal((8 + Number(new DataView(bytes.buffer).getBigUint64(0, true))) % 8, 0)
})

test('a file at an unaligned offset of a buffer is read', () => {
  const bytes = writeSafetensors(new Map([['w', f32([2], [1, 2])]]))
  const shifted = new Uint8Array(bytes.length + 1)
  shifted.set(bytes, 1)
  assert.deepEqual(readSafetensors(shifted.subarray(1)).get('w')?.data, Float32Array.of(1, 2))
})

test('binary16: every code is decoded and encoded to itself; rounding is to nearest, ties to even', () => {
  for (let h = 0; h < 65536; h++) {
    const value = f16ToF32(h)
    if (Number.isNaN(value)) assert.ok(Number.isNaN(f16ToF32(f32ToF16(value))))
    else assert.equal(f32ToF16(value), h)
  }
  assert.equal(f32ToF16(1 + 2 ** -11), 0x3c00)
  assert.equal(f32ToF16(1 + 3 * 2 ** -11), 0x3c02)
  assert.equal(f32ToF16(2 ** -25), 0)
  assert.equal(f32ToF16(1.5 * 2 ** -25), 1)
  assert.equal(f32ToF16(65520), 0x7c00)
})

test('BF16 and F16 are read as float32', () => {
  const values = Float32Array.of(1, -0.5, 3.140625, 65280)
  for (const dtype of ['BF16', 'F16'] as const) {
    const bytes = writeSafetensors(new Map([['w', { dtype, shape: [4], data: values }]]))
    const read = readSafetensors(bytes).get('w')
    assert.equal(read?.dtype, dtype)
    assert.deepEqual(read?.data, values)
  }
})

const entry = (offsets: string, shape = '[1]', dtype = 'F32') =>
  `{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}`
const faults: [string, Uint8Array, RegExp][] = [
  ['too short', new Uint8Array(7), /too short/],
  [
    'header longer than the file',
    Uint8Array.of(200, 0, 0, 0, 0, 0, 0, 0, 123),
    /header has 200 bytes, the whole file 9/,
  ],
  ['huge header', Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 255), /at most \d+ are allowed/],
  ['not JSON', file('{nonsense'), /not JSON/],
  ['not an object', file('[]'), /not a JSON object/],
  ['leading space', file(' {}'), /not a JSON object/],
  ['overlap', file(`{"a":${entry('[0,4]')},"b":${entry('[0,4]')}}`, new Uint8Array(4)), /"b": overlaps/],
  ['hole', file(`{"a":${entry('[4,8]')}}`, new Uint8Array(8)), /"a": follows 4 unused bytes/],
  ['bytes left', file(`{"a":${entry('[0,4]')}}`, new Uint8Array(8)), /4 bytes follow the last tensor/],
  ['out of range', file(`{"a":${entry('[0,8]', '[2]')}}`, new Uint8Array(4)), /"a": data_offsets \[0, 8\] are outside/],
  ['wrong size', file(`{"a":${entry('[0,4]', '[2]')}}`, new Uint8Array(4)), /has 8 bytes; data_offsets span 4/],
  ['size overflow', file(`{"a":${entry('[0,4]', '[4294967296,4294967296]')}}`, new Uint8Array(4)), /"a"/],
  ['negative', file(`{"a":${entry('[0,4]', '[-1]')}}`, new Uint8Array(4)), /shape/],
  ['dtype', file(`{"a":${entry('[0,4]', '[1]', 'toString')}}`, new Uint8Array(4)), /dtype/],
  [
    'repeated tensor',
    file(`{"a":${entry('[0,4]')},"\\u0061":${entry('[0,4]')}}`, new Uint8Array(4)),
    /"a" occurs twice/,
  ],
  [
    'repeated field',
    file('{"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}', new Uint8Array(4)),
    /"shape" occurs twice/,
  ],
  ['prototype', file(`{"__proto__":${entry('[0,4]')}}`, new Uint8Array(4)), /not allowed/],
  [
    'unknown field',
    file('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', new Uint8Array(4)),
    /unknown field "x"/,
  ],
  ['metadata', file('{"__metadata__":{"a":1}}'), /is not a string/],
]
for (const [name, bytes, message] of faults) {
  test(`refused: ${name}`, () => {
    assert.throws(
      () => readSafetensors(bytes, 'model.safetensors'),
      (error: unknown) =>
        error instanceof InstarError &&
        error.code === 'bad_checkpoint' &&
        error.message.startsWith('model.safetensors: ') &&
        message.test(error.message),
    )
  })
}

test('a tensor whose data does not match its shape is not written', () => {
  assert.throws(() => writeSafetensors(new Map([['w', f32([3], [1, 2])]])), /"w": shape \[3\] has 3 values, the data 2/)
})
