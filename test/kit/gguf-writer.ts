/** Writes GGUF version 3 for tests: metadata, and tensors in f32, f16, q8_0 or q4_1. */
import { encodeF16, f32ToF16 } from '@instar/policy/checkpoints/float16'
import type { WeightTensor } from '@instar/policy/weights'

export type Value =
  | { u32: number }
  | { f32: number }
  | { string: string }
  | { strings: readonly string[] }
  | { i32s: readonly number[] }
export type Quantisation = 'f32' | 'f16' | 'q8_0' | 'q4_1'
const TYPE: Record<Quantisation, number> = { f32: 0, f16: 1, q8_0: 8, q4_1: 3 }

class Bytes {
  private readonly parts: Uint8Array[] = []
  length = 0

  raw(bytes: Uint8Array): this {
    this.parts.push(bytes)
    this.length += bytes.length
    return this
  }
  private number(size: number, write: (view: DataView) => void): this {
    const bytes = new Uint8Array(size)
    write(new DataView(bytes.buffer))
    return this.raw(bytes)
  }
  u32(value: number): this {
    return this.number(4, (view) => view.setUint32(0, value, true))
  }
  u64(value: number): this {
    return this.number(8, (view) => view.setBigUint64(0, BigInt(value), true))
  }
  f32(value: number): this {
    return this.number(4, (view) => view.setFloat32(0, value, true))
  }
  string(text: string): this {
    const bytes = new TextEncoder().encode(text)
    return this.u64(bytes.length).raw(bytes)
  }
  align(to: number): this {
    return this.raw(new Uint8Array((to - (this.length % to)) % to))
  }
  all(): Uint8Array {
    const out = new Uint8Array(this.length)
    let at = 0
    for (const part of this.parts) {
      out.set(part, at)
      at += part.length
    }
    return out
  }
}

/** The blocks of 32 of the format, rounded to the nearest step. */
function quantise(data: Float32Array, type: Quantisation): Uint8Array {
  if (type === 'f32') return new Uint8Array(data.slice().buffer)
  if (type === 'f16') return new Uint8Array(encodeF16(data).buffer)
  const width = type === 'q8_0' ? 34 : 20
  const out = new Uint8Array((data.length / 32) * width)
  const view = new DataView(out.buffer)
  for (let block = 0; block * 32 < data.length; block++) {
    const values = data.subarray(block * 32, block * 32 + 32)
    const at = block * width
    if (type === 'q8_0') {
      const d = values.reduce((max, value) => Math.max(max, Math.abs(value)), 0) / 127
      view.setUint16(at, f32ToF16(d), true)
      values.forEach((value, i) =>
        view.setInt8(at + 2 + i, d === 0 ? 0 : Math.max(-127, Math.min(127, Math.round(value / d)))),
      )
    } else {
      const low = Math.min(...values)
      const d = (Math.max(...values) - low) / 15
      view.setUint16(at, f32ToF16(d), true)
      view.setUint16(at + 2, f32ToF16(low), true)
      const q = Array.from(values, (value) => (d === 0 ? 0 : Math.max(0, Math.min(15, Math.round((value - low) / d)))))
      for (let i = 0; i < 16; i++) out[at + 4 + i] = (q[i] ?? 0) | ((q[i + 16] ?? 0) << 4)
    }
  }
  return out
}

function writeValue(bytes: Bytes, value: Value): void {
  if ('u32' in value) bytes.u32(4).u32(value.u32)
  else if ('f32' in value) bytes.u32(6).f32(value.f32)
  else if ('string' in value) bytes.u32(8).string(value.string)
  else if ('strings' in value) {
    bytes.u32(9).u32(8).u64(value.strings.length)
    for (const text of value.strings) bytes.string(text)
  } else {
    bytes.u32(9).u32(5).u64(value.i32s.length)
    for (const number of value.i32s) bytes.u32(number)
  }
}

export function writeGguf(
  metadata: ReadonlyMap<string, Value>,
  tensors: ReadonlyMap<string, WeightTensor & { type: Quantisation }>,
): Uint8Array {
  const bytes = new Bytes().u32(0x46554747).u32(3).u64(tensors.size).u64(metadata.size)
  for (const [key, value] of metadata) {
    bytes.string(key)
    writeValue(bytes, value)
  }
  const data = new Bytes()
  for (const [name, tensor] of tensors) {
    bytes.string(name).u32(tensor.shape.length)
    for (const size of [...tensor.shape].reverse()) bytes.u64(size)
    bytes.u32(TYPE[tensor.type]).u64(data.length)
    data.raw(quantise(tensor.data, tensor.type)).align(32)
  }
  return bytes.align(32).raw(data.all()).all()
}
