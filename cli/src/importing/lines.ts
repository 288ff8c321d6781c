/** The lines of a file with where they are, so that one can be read again without the others. */
import { InstarError } from '@instar/events/errors'
import { open, stat, type FileHandle } from 'node:fs/promises'

/** `number` counts from 1; `from` and `length` in bytes. */
export type Line = { number: number; from: number; length: number; bytes: Buffer }

const PIECE = 1 << 20
/** A line that is longer is no record of a conversation. */
const LONGEST_LINE = 256 << 20

/** It is read twice, from anywhere: a folder or a pipe will not do. Throws `bad_request`. */
export const openFile = async (path: string): Promise<FileHandle> => {
  const refused = (why: string, cause?: unknown): InstarError =>
    new InstarError('bad_request', `${path} cannot be read: ${why}.`, { field: 'FILE', file: path }, { cause })
  try {
    if (!(await stat(path)).isFile()) throw refused('it is no regular file')
    return await open(path, 'r')
  } catch (cause) {
    throw cause instanceof InstarError
      ? cause
      : refused((cause as NodeJS.ErrnoException).code ?? (cause as Error).message, cause)
  }
}

/** Lines that are not blank, as bytes: whether they are UTF-8 is left to whoever parses them. */
export const linesOf = async function* (file: FileHandle): AsyncGenerator<Line> {
  const piece = Buffer.alloc(PIECE)
  let held: Buffer[] = []
  let heldBytes = 0
  let number = 1
  let from = 0
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(piece, 0, PIECE, at)
    let start = 0
    for (
      let end = piece.subarray(0, bytesRead).indexOf(10);
      end >= 0;
      end = piece.subarray(0, bytesRead).indexOf(10, start)
    ) {
      const line = lineOf([...held, piece.subarray(start, end)], number, from)
      if (line) yield line
      held = []
      heldBytes = 0
      number += 1
      start = end + 1
      from = at + start
    }
    if (heldBytes <= LONGEST_LINE) held.push(Buffer.from(piece.subarray(start, bytesRead)))
    heldBytes += bytesRead - start
    at += bytesRead
    if (bytesRead > 0) continue
    const line = lineOf(held, number, from)
    if (line) yield line
    return
  }
}

const lineOf = (pieces: readonly Uint8Array[], number: number, from: number): Line | null => {
  const bytes = Buffer.concat(pieces)
  return bytes.toString().trim() === '' ? null : { number, from, length: bytes.length, bytes }
}

export const readAgain = async (file: FileHandle, { from, length }: Omit<Line, 'bytes'>): Promise<Buffer> => {
  const bytes = Buffer.alloc(length)
  await file.read(bytes, 0, length, from)
  return bytes
}
