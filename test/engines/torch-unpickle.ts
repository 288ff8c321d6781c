/**
 * Reads named tensors from the pickles that SGLang is sent, as `SafeUnpickler` of SGLang 0.5.23 would (`srt/utils/common.py`):
 * only the names that it allows. Opcodes: Python's `pickletools.py`. Written apart from the writer that it tests.
 */
import type { Dtype } from '@instar/policy/checkpoints/safetensors'

type Storage = { dtype: Dtype; bytes: Buffer }
type Read = { dtype: Dtype; shape: number[]; bytes: Buffer }
type Global = { global: string }

const DTYPES: Record<string, [Dtype, number]> = {
  'torch FloatStorage': ['F32', 4],
  'torch HalfStorage': ['F16', 2],
  'torch BFloat16Storage': ['BF16', 2],
}

/** One pickle from `at`; returns its value and the place after its end. */
const load = (bytes: Buffer, start: number, persistent: (id: unknown) => unknown): { value: unknown; at: number } => {
  const stack: unknown[] = []
  const marks: number[] = []
  let at = start
  const line = (): string => {
    const end = bytes.indexOf(10, at)
    const text = bytes.toString('utf8', at, end)
    at = end + 1
    return text
  }
  const run = (): Buffer => {
    const length = bytes.readUInt32LE(at)
    at += 4 + length
    return bytes.subarray(at - length, at)
  }
  const marked = (): unknown[] => stack.splice(marks.pop()!)
  for (;;) {
    const opcode = String.fromCharCode(bytes[at]!)
    at += 1
    if (opcode === '\x80') at += 1
    else if (opcode === '.') return { value: stack.pop(), at }
    else if (opcode === '(') marks.push(stack.length)
    else if (opcode === 'c') stack.push({ global: `${line()} ${line()}` } satisfies Global)
    else if (opcode === 'X') stack.push(run().toString('utf8'))
    else if (opcode === 'B') stack.push(run())
    else if (opcode === 'J') {
      stack.push(bytes.readInt32LE(at))
      at += 4
    } else if (opcode === 'M') {
      stack.push(bytes.readUInt16LE(at))
      at += 2
    } else if (opcode === '\x8a') {
      const length = bytes[at]!
      stack.push(bytes.toString('hex', at + 1, at + 1 + length))
      at += 1 + length
    } else if (opcode === '\x88' || opcode === '\x89') stack.push(opcode === '\x88')
    else if (opcode === 'N') stack.push(null)
    else if (opcode === ')') stack.push([])
    else if (opcode === ']') stack.push([])
    else if (opcode === '}') stack.push(new Map())
    else if (opcode === 't') stack.push(marked())
    else if (opcode === 'a') {
      const item = stack.pop()
      ;(stack.at(-1) as unknown[]).push(item)
    } else if (opcode === 'u') {
      const items = marked()
      const map = stack.at(-1) as Map<unknown, unknown>
      for (let i = 0; i < items.length; i += 2) map.set(items[i], items[i + 1])
    } else if (opcode === 'Q') stack.push(persistent(stack.pop()))
    else if (opcode === 'R') {
      const given = stack.pop() as unknown[]
      stack.push(call((stack.pop() as Global).global, given))
    } else throw new Error(`opcode ${JSON.stringify(opcode)} at ${at - 1}`)
  }
}

/** `torch.load` of a file as torch wrote it before zip files, with one storage. */
const storageOf = (file: Buffer): Storage => {
  let place: unknown[] = []
  const none = (): never => {
    throw new Error('a persistent id outside the object')
  }
  const magic = load(file, 0, none)
  const version = load(file, magic.at, none)
  const system = load(file, version.at, none)
  const object = load(file, system.at, (id) => (place = id as unknown[]))
  const keys = load(file, object.at, none)
  const [kind, type, key, device, count, view] = place
  const known = DTYPES[(type as Global).global]
  if (
    magic.value !== '6cfc9c46f9206aa85019' ||
    version.value !== 1001 ||
    JSON.stringify([kind, key, device, view, keys.value]) !== '["storage","0","cpu",null,["0"]]' ||
    (system.value as Map<string, unknown>).get('little_endian') !== true ||
    known === undefined
  )
    throw new Error('not a storage of torch')
  const length = Number(file.readBigInt64LE(keys.at))
  const bytes = file.subarray(keys.at + 8)
  if (length !== count || bytes.length !== length * known[1]) throw new Error('another length')
  return { dtype: known[0], bytes }
}

const call = (name: string, given: unknown[]): unknown => {
  if (name === 'collections OrderedDict' && given.length === 0) return new Map()
  if (name === 'torch.storage _load_from_bytes') return storageOf(given[0] as Buffer)
  if (name !== 'torch._utils _rebuild_tensor_v2')
    throw new Error(`Blocked unsafe global (${name.replace(' ', '.')}) during pickle deserialization`)
  const [{ dtype, bytes }, offset, shape, strides, gradient] = given as [Storage, number, number[], number[], boolean]
  const dense = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, n) => product * n, 1))
  if (offset !== 0 || gradient || JSON.stringify(strides) !== JSON.stringify(dense)) throw new Error('not dense')
  return { dtype, shape, bytes } satisfies Read
}

export const torchUnpickle = (bytes: Buffer): Map<string, Read> => {
  const { value, at } = load(bytes, 0, () => {
    throw new Error('a persistent id outside a storage')
  })
  if (at !== bytes.length) throw new Error('bytes after the end')
  return value as Map<string, Read>
}
