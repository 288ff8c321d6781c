/**
 * Reads and writes the wire format of Protocol Buffers, as far as the messages of the Tinker API need it.
 * https://protobuf.dev/programming-guides/encoding/
 */

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const FIXED32 = 5

/** Bytes that are no message. `offset`: where. */
export class ProtobufError extends Error {
  readonly offset: number
  constructor(problem: string, offset: number) {
    super(`${problem} at byte ${offset}`)
    this.name = 'ProtobufError'
    this.offset = offset
  }
}

/** A non-negative safe integer. */
const varint = (value: number): Uint8Array => {
  const bytes: number[] = []
  let rest = value
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  bytes.push(rest)
  return Uint8Array.from(bytes)
}

const utf8 = new TextEncoder()

const tagged = (field: number, type: number, content: Uint8Array): Uint8Array =>
  join([varint(field * 8 + type), content])

export const join = (parts: readonly Uint8Array[]): Uint8Array => {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

/** A field of bytes or a message. */
export const bytesField = (field: number, content: Uint8Array): Uint8Array =>
  join([varint(field * 8 + BYTES), varint(content.length), content])
export const stringField = (field: number, text: string): Uint8Array => bytesField(field, utf8.encode(text))
export const uintField = (field: number, value: number): Uint8Array => tagged(field, VARINT, varint(value))

/** A packed repeated field of non-negative integers. */
export const uintsField = (field: number, values: readonly number[]): Uint8Array =>
  bytesField(field, join(values.map(varint)))

/** One field. `varint` for numbers (its value; null beyond 2^53), `bytes` for all else. */
export type Field = { number: number; offset: number; varint: number | null; bytes: Uint8Array | null }

/** The fields of a message in order. Throws ProtobufError for bytes that are cut off, groups and other types. */
export const readFields = (message: Uint8Array): Field[] => {
  const fields: Field[] = []
  let at = 0
  const readVarint = (): number | null => {
    let value = 0
    for (let shift = 0; shift < 10; shift++) {
      const byte = message[at++]
      if (byte === undefined) throw new ProtobufError('a number is cut off', at)
      value += (byte & 0x7f) * 2 ** (7 * shift)
      if (byte < 0x80) return Number.isSafeInteger(value) ? value : null
    }
    throw new ProtobufError('a number has more than ten bytes', at)
  }
  const take = (length: number | null): Uint8Array => {
    if (length === null || length > message.length - at) throw new ProtobufError('a field is cut off', at)
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const offset = at
    const tag = readVarint()
    if (tag === null || tag < 8) throw new ProtobufError('no field number', offset)
    const number = Math.floor(tag / 8)
    const type = tag % 8
    if (type === VARINT) fields.push({ number, offset, varint: readVarint(), bytes: null })
    else if (type === BYTES) fields.push({ number, offset, varint: null, bytes: take(readVarint()) })
    else if (type === FIXED64 || type === FIXED32)
      fields.push({ number, offset, varint: null, bytes: take(type === FIXED64 ? 8 : 4) })
    else throw new ProtobufError(`wire type ${type}`, offset)
  }
  return fields
}

const strict = new TextDecoder('utf-8', { fatal: true })

/** The text of a string field. Throws ProtobufError if it is not one. */
export const textOf = (field: Field): string => {
  try {
    return strict.decode(messageOf(field))
  } catch (error) {
    if (error instanceof ProtobufError) throw error
    throw new ProtobufError('a string is not UTF-8', field.offset)
  }
}

/** The bytes of a field of bytes or a message. Throws ProtobufError if it is a number. */
export const messageOf = (field: Field): Uint8Array => {
  if (!field.bytes) throw new ProtobufError(`field ${field.number} is a number`, field.offset)
  return field.bytes
}

/** The entry of a map field: key (a string) and the field of its value; null where one is absent. */
export const mapEntry = (field: Field): { key: string; value: Field } | null => {
  const fields = readFields(messageOf(field))
  const key = fields.findLast(({ number }) => number === 1)
  const value = fields.findLast(({ number }) => number === 2)
  return key && value ? { key: textOf(key), value } : null
}
