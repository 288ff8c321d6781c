/** Reads the lines of a file with their positions, so that a single line can be read again. */
import { InstarError } from '@instar/events/errors'
import { open, stat, type FileHandle } from 'node:fs/promises'

/** `number` counts from 1; `from` and `length` in bytes. */
export type LinePosition = { number: number; from: number; length: number }
export type Line = LinePosition & { bytes: Buffer }

const READ_BYTES = 1 << 20
/** Bytes beyond are dropped, so that a longer line fails to parse. */
const MAX_LINE_BYTES = 256 << 20

/** A regular file: lines are read again at their positions. Throws `bad_request`. */
export const openFile = async (path: string): Promise<FileHandle> => {
  const refused = (why: string, cause?: unknown): InstarError =>
    new InstarError('bad_request', `${path} cannot be read: ${why}.`, { field: 'FILE', file: path }, { cause })
  try {
    if (!(await stat(path)).isFile()) throw refused('it is not a regular file')
    return await open(path, 'r')
  } catch (cause) {
    throw cause instanceof InstarError
      ? cause
      : refused((cause as NodeJS.ErrnoException).code ?? (cause as Error).message, cause)
  }
}

/** Yields the lines that are not blank, as bytes: the parser checks that they are UTF-8. */
export const readLines = async function* (file: FileHandle): AsyncGenerator<Line> {
  const buffer = Buffer.alloc(READ_BYTES)
  let pending: Buffer[] = []
  let pendingBytes = 0
  let number = 1
  let from = 0
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, at)
    let start = 0
    for (
      let end = buffer.subarray(0, bytesRead).indexOf(10);
      end >= 0;
      end = buffer.subarray(0, bytesRead).indexOf(10, start)
    ) {
      const line = joinLine([...pending, buffer.subarray(start, end)], number, from)
      if (line) yield line
      pending = []
      pendingBytes = 0
      number += 1
      start = end + 1
      from = at + start
    }
    if (pendingBytes <= MAX_LINE_BYTES) pending.push(Buffer.from(buffer.subarray(start, bytesRead)))
    pendingBytes += bytesRead - start
    at += bytesRead
    if (bytesRead > 0) continue
    const line = joinLine(pending, number, from)
    if (line) yield line
    return
  }
}

/** Null for a blank line. */
const joinLine = (chunks: readonly Uint8Array[], number: number, from: number): Line | null => {
  const bytes = Buffer.concat(chunks)
  return bytes.toString().trim() === '' ? null : { number, from, length: bytes.length, bytes }
}

export const readLineAt = async (file: FileHandle, { from, length }: LinePosition): Promise<Buffer> => {
  const bytes = Buffer.alloc(length)
  await file.read(bytes, 0, length, from)
  return bytes
}
