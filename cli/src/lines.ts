/** Splits bytes into lines, with the position of each. */

/** `number` counts from 1; `from` and `length` in bytes. */
export type LinePosition = { number: number; from: number; length: number }
/** `tooLong`: `bytes` is the beginning of a longer line. */
export type Line = LinePosition & { bytes: Buffer; tooLong: boolean }

/**
 * Yields the lines that are not blank, as bytes: the caller checks that they are UTF-8. A line is yielded as too long
 * as soon as more than `maxBytes` of it have been read; the rest of it is dropped. A chunk may be overwritten once the
 * next one is asked for.
 */
export const splitLines = async function* (chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Line> {
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  let number = 1
  let from = 0
  let dropping = false
  const take = (last: Uint8Array): Line | null => {
    const bytes = Buffer.concat([...pending, last])
    const blank = dropping || bytes.toString().trim() === ''
    pending = []
    pendingBytes = 0
    return blank ? null : { number, from, length: bytes.length, bytes, tooLong: bytes.length > maxBytes }
  }
  let chunkFrom = 0
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      const line = take(chunk.subarray(start, end))
      if (line) yield line
      dropping = false
      number += 1
      start = end + 1
      from = chunkFrom + start
    }
    const rest = chunk.subarray(start)
    chunkFrom += chunk.length
    if (dropping || rest.length === 0) continue
    if (pendingBytes + rest.length > maxBytes) {
      const line = take(rest)
      if (line) yield line
      dropping = true
    } else {
      pending.push(Uint8Array.from(rest))
      pendingBytes += rest.length
    }
  }
  const line = take(new Uint8Array())
  if (line) yield line
}
