/**
 * Reads wanted files out of a tar archive (POSIX ustar with PAX headers, GNU long names and sizes). Nothing is written
 * anywhere: a file's folder is dropped, and an archive with links, repeated or odd names of wanted files is refused.
 * https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html
 */
import { InstarError } from '@instar/events/errors'
import type { ArchiveFile } from '../port.ts'

const BLOCK = 512
/** An archive of an adapter has two or three. */
const ENTRIES_MAX = 10_000
/** Of extended headers. */
const HEADER_BYTES_MAX = 1 << 20

const bad = (problem: string): InstarError => new InstarError('bad_checkpoint', `archive of an adapter: ${problem}`)

const textAt = (block: Uint8Array, at: number, length: number): string => {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString('utf8')
}

/** Octal digits, or GNU's base 256 where the first bit is set. */
const numberAt = (block: Uint8Array, at: number, length: number): number => {
  const first = block[at] ?? 0
  if (first >= 0x80) {
    let value = first & 0x7f
    for (let index = at + 1; index < at + length; index++) value = value * 256 + (block[index] ?? 0)
    return value
  }
  const text = textAt(block, at, length).trim()
  return text === '' ? 0 : /^[0-7]+$/.test(text) ? Number.parseInt(text, 8) : Number.NaN
}

const checksumFits = (block: Uint8Array): boolean => {
  let sum = 0
  for (let index = 0; index < BLOCK; index++) sum += index >= 148 && index < 156 ? 32 : (block[index] ?? 0)
  return sum === numberAt(block, 148, 8)
}

/** Records `LENGTH KEY=VALUE\n` of a PAX header; LENGTH counts the whole record. */
const paxRecords = (bytes: Uint8Array): Map<string, string> => {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length && bytes[at] !== 0;) {
    const space = bytes.indexOf(32, at)
    const length = Number(Buffer.from(bytes.subarray(at, Math.max(at, space))).toString('latin1'))
    if (space < 0 || !Number.isSafeInteger(length) || length < 5 || at + length > bytes.length)
      throw bad('an extended header is damaged')
    const record = Buffer.from(bytes.subarray(space + 1, at + length - 1)).toString('utf8')
    const equals = record.indexOf('=')
    if (equals < 0) throw bad('an extended header has a record without =')
    records.set(record.slice(0, equals), record.slice(equals + 1))
    at += length
  }
  return records
}

const fileName = (path: string): string => {
  const parts = path.split(/[/\\]/)
  if (parts.includes('..')) throw bad(`the name ${JSON.stringify(path.slice(0, 200))} leads out of its folder`)
  return parts.at(-1) ?? ''
}

/** The files whose name, without folders, is wanted. Their bytes are views of the archive. */
export const readTar = (archive: Uint8Array, wanted: readonly string[]): ArchiveFile[] => {
  const files: ArchiveFile[] = []
  let path: string | null = null
  let size: number | null = null
  let entries = 0
  for (let at = 0; at + BLOCK <= archive.length;) {
    const block = archive.subarray(at, at + BLOCK)
    if (block.every((byte) => byte === 0)) break
    if (!checksumFits(block)) throw bad(`the header at byte ${at} is damaged`)
    if (++entries > ENTRIES_MAX) throw bad(`more than ${ENTRIES_MAX} entries`)
    const type = String.fromCharCode(block[156] ?? 0)
    const isHeader = 'xgLK'.includes(type)
    const length: number = isHeader ? numberAt(block, 124, 12) : (size ?? numberAt(block, 124, 12))
    if (!Number.isSafeInteger(length) || length < 0 || length > archive.length - at - BLOCK)
      throw bad(`the entry at byte ${at} is longer than the archive`)
    if (isHeader && length > HEADER_BYTES_MAX) throw bad(`an extended header has ${length} bytes`)
    const content = archive.subarray(at + BLOCK, at + BLOCK + length)
    at += BLOCK + Math.ceil(length / BLOCK) * BLOCK
    if (type === 'x') {
      const records = paxRecords(content)
      path = records.get('path') ?? path
      if (records.has('size')) size = Number(records.get('size'))
    } else if (type === 'L') path = textAt(content, 0, content.length)
    else if (!isHeader) {
      const prefix = textAt(block, 345, 155)
      const name = fileName(path ?? (prefix === '' ? '' : `${prefix}/`) + textAt(block, 0, 100))
      path = null
      size = null
      if (!wanted.includes(name)) continue
      if (type !== '0' && type !== '\0' && type !== '7') throw bad(`${name} is no regular file`)
      if (files.some((file) => file.name === name)) throw bad(`${name} occurs twice`)
      files.push({ name, bytes: content })
    }
  }
  return files
}
