/** Random bytes from a buffer: a system call per page costs less than one per id. */
import { randomFillSync } from 'node:crypto'

const PAGE = 4096

let page = Buffer.alloc(0)
let used = 0

/** Without a copy of the bytes. */
export const hex = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('hex')

/** Never returns a byte twice. */
export const randomBytes = (bytes: number): Uint8Array => {
  if (bytes > PAGE) return randomFillSync(Buffer.alloc(bytes))
  if (used + bytes > page.length) {
    page = randomFillSync(Buffer.alloc(PAGE))
    used = 0
  }
  used += bytes
  return page.subarray(used - bytes, used)
}
