/** Opens an import's file and reads its lines with their positions, so that a single line can be read again. */
import { InstarError } from '@instar/events/errors'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { splitLines, type Line, type LinePosition } from '../lines.ts'

const READ_BYTES = 1 << 20
/** A longer line is cut, so that it fails to parse. */
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

/** Yields the lines that are not blank. */
export const readLines = (file: FileHandle): AsyncGenerator<Line> => splitLines(chunksOf(file), MAX_LINE_BYTES)

/** Chunks of at most READ_BYTES; each is overwritten by the next. */
const chunksOf = async function* (file: FileHandle): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.alloc(READ_BYTES)
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, at)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}

export const readLineAt = async (file: FileHandle, { from, length }: LinePosition): Promise<Buffer> => {
  const bytes = Buffer.alloc(length)
  await file.read(bytes, 0, length, from)
  return bytes
}
