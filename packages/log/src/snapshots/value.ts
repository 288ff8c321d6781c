/** A value as the bytes of an entry. */
import { deserialize, serialize } from 'node:v8'

/** What v8.serialize begins with, and no JSON does. */
const V8 = 0xff

/** `json`: the value is what JSON gives back as it is. It takes an eighth of the time, where a value is small. */
export const toBytes = (value: unknown, json: boolean): Uint8Array =>
  json ? Buffer.from(JSON.stringify(value)) : serialize(value)

export const fromBytes = (bytes: Uint8Array): unknown =>
  bytes[0] === V8
    ? deserialize(bytes)
    : (JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as unknown)
