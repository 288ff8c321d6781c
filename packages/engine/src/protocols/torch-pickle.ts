/**
 * Named tensors as the Python pickle that `pickle.dumps({name: tensor})` describes for PyTorch's CPU tensors: a dict whose
 * values are `torch._utils._rebuild_tensor_v2` of a storage, and each storage a file of its own in the format that
 * `torch.save` had before its zip files (`torch/serialization.py`, `_legacy_save`), read by `torch.storage._load_from_bytes`.
 * Only what these names mean is written; nothing is read.
 * Opcodes: Python's `pickletools.py`, protocols 2 (storages) and 3.
 */
import { tensorsOf, type FloatTensor } from './safetensors-floats.ts'

const STORAGE = { F32: 'FloatStorage', F16: 'HalfStorage', BF16: 'BFloat16Storage' } as const
const WIDTH = { F32: 4, F16: 2, BF16: 2 } as const

const MARK = '('
const TUPLE = 't'
const REDUCE = 'R'
const STOP = '.'

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(5)
  bytes.write('J', 'latin1')
  bytes.writeInt32LE(value, 1)
  return bytes
}

/** `opcode`, a length of 32 bits, and the bytes. */
const counted = (opcode: string, bytes: Uint8Array): Buffer[] => {
  const head = Buffer.alloc(5)
  head.write(opcode, 'latin1')
  head.writeUInt32LE(bytes.length, 1)
  return [head, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)]
}
const text = (value: string): Buffer[] => counted('X', Buffer.from(value))
const global = (module: string, name: string): Buffer => Buffer.from(`c${module}\n${name}\n`)
const tuple = (...items: readonly Buffer[]): Buffer[] => [Buffer.from(MARK), ...items, Buffer.from(TUPLE)]

const PROTOCOL_2 = Buffer.from([0x80, 2])
/** The file's magic number, its version 1001, and what the writing machine is: little-endian, with C's usual sizes. */
const STORAGE_HEAD = Buffer.concat([
  PROTOCOL_2,
  Buffer.from('8a0a6cfc9c46f9206aa850192e', 'hex'),
  PROTOCOL_2,
  Buffer.from([...Buffer.from('M'), 0xe9, 0x03, ...Buffer.from(STOP)]),
  PROTOCOL_2,
  Buffer.from(`}${MARK}`),
  ...text('protocol_version'),
  int32(1001),
  ...text('little_endian'),
  Buffer.from([0x88]),
  ...text('type_sizes'),
  Buffer.from(`}${MARK}`),
  ...['short', 'int', 'long'].flatMap((name) => [...text(name), int32(name === 'short' ? 2 : 4)]),
  Buffer.from(`uu${STOP}`),
])

/** One storage with the key 0. */
const storageFile = ({ dtype, bytes }: FloatTensor): Buffer[] => {
  const count = bytes.length / WIDTH[dtype]
  const length = Buffer.alloc(8)
  length.writeBigInt64LE(BigInt(count))
  return [
    STORAGE_HEAD,
    PROTOCOL_2,
    // The persistent id of a storage: kind, class, key, place, number of values, no view of another one.
    ...tuple(
      ...text('storage'),
      global('torch', STORAGE[dtype]),
      ...text('0'),
      ...text('cpu'),
      int32(count),
      Buffer.from('N'),
    ),
    Buffer.from(`Q${STOP}`),
    PROTOCOL_2,
    Buffer.from(']'),
    ...text('0'),
    Buffer.from(`a${STOP}`),
    length,
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
  ]
}

/** Of a tensor without gaps, in values. */
const strides = (shape: readonly number[]): number[] =>
  shape.map((_, axis) => shape.slice(axis + 1).reduce((product, n) => product * n, 1))

const tensor = (value: FloatTensor): Buffer[] => [
  global('torch._utils', '_rebuild_tensor_v2'),
  Buffer.from(MARK),
  global('torch.storage', '_load_from_bytes'),
  Buffer.from(MARK),
  ...counted('B', Buffer.concat(storageFile(value))),
  Buffer.from(TUPLE + REDUCE),
  int32(0),
  ...tuple(...value.shape.map(int32)),
  ...tuple(...strides(value.shape).map(int32)),
  // No gradient, no hooks.
  Buffer.from([0x89]),
  global('collections', 'OrderedDict'),
  Buffer.from(`)${REDUCE}${TUPLE}${REDUCE}`),
]

/**
 * `weights`: a safetensors file. Throws an Error for tensors other than F32, F16 and BF16, and for one with more than
 * 2^31 − 1 values.
 */
export const torchPickle = (weights: Uint8Array): Buffer =>
  Buffer.concat([
    Buffer.from([0x80, 3]),
    Buffer.from(`}${MARK}`),
    ...[...tensorsOf(weights)].flatMap(([name, value]) => [...text(name), ...tensor(value)]),
    Buffer.from(`u${STOP}`),
  ])
