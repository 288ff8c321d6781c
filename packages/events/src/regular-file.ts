/** Reads files that somebody names: a pipe would be waited for, and a device may never end. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Absent on Windows, which has no pipes among files. */
const NONBLOCK = constants.O_NONBLOCK ?? 0

/**
 * The content of a regular file of at most `most` bytes, also if it grows or is replaced meanwhile. Throws `TypeError` for
 * another kind of file, `RangeError` for a larger one, and as `openSync`.
 */
export const readRegularFile = (file: string, most: number): Buffer => {
  const opened = openSync(file, constants.O_RDONLY | NONBLOCK)
  try {
    const stat = fstatSync(opened)
    if (!stat.isFile()) throw new TypeError('it is not a regular file')
    if (stat.size > most) throw new RangeError(`it has more than ${most} bytes`)
    const bytes = Buffer.allocUnsafe(stat.size)
    let length = 0
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(opened, bytes, length, Math.min(bytes.length - length, 1 << 30), null)
    return length === bytes.length ? bytes : bytes.subarray(0, length)
  } finally {
    closeSync(opened)
  }
}
