/** Serialization of values. */
import { deserialize, serialize } from 'node:v8'

/** The first byte of v8.serialize's output. JSON never starts with it. */
const V8_HEADER = 0xff

/** `json`: JSON represents the value exactly; for small values it takes an eighth of the time of v8.serialize. */
export const toBytes = (value: unknown, json: boolean): Uint8Array =>
  json ? Buffer.from(JSON.stringify(value)) : serialize(value)

export const fromBytes = (bytes: Uint8Array): unknown =>
  bytes[0] === V8_HEADER
    ? deserialize(bytes)
    : (JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as unknown)
