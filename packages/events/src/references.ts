/**
 * Storage of request bodies and prompt ids by reference. A client sends the whole conversation with every request; a
 * turn therefore stores only what differs from an earlier turn of its session. A chain has at most MAX_DEPTH
 * references, followed by a full copy, so that reading a turn requires at most MAX_DEPTH other turns.
 */
import { contentSha } from './ids.ts'
import type { StoredBody, StoredIds } from './records.ts'

export const MAX_DEPTH = 8
/** A longer `middle` is stored on `blobs`. */
export const MAX_INLINE_BYTES = 512 * 1024
/** Bytes that must be repeated for a reference to be stored. */
const MIN_REPEAT = 64

/** An earlier turn of the session that may be referenced: its whole content, and the length of its chain. */
export type Earlier<T> = { turn: string; content: T; depth: number }

/**
 * `middle`: the bytes to store, inline or as a blob. `depth`: the length of the chain of references from this turn; 0
 * for a full copy.
 */
export const storeBody = (
  body: Uint8Array,
  earlier: Earlier<Uint8Array> | null,
): { stored: StoredBody; depth: number; middle: Uint8Array } => {
  const sha256 = contentSha(body)
  const usable = earlier && earlier.depth < MAX_DEPTH ? earlier : null
  const prefix = usable ? commonPrefix(body, usable.content) : 0
  const suffix = usable ? commonSuffix(body, usable.content, prefix) : 0
  const from = usable && prefix + suffix >= MIN_REPEAT ? usable : null
  const middle = from ? body.slice(prefix, body.length - suffix) : body
  const blob = middle.length <= MAX_INLINE_BYTES ? null : from ? contentSha(middle) : sha256
  const stored: StoredBody = {
    from: from?.turn ?? null,
    prefix: from ? prefix : 0,
    suffix: from ? suffix : 0,
    written: { keyId: null, bytes: blob ? new Uint8Array(0) : middle },
    blob,
    length: body.length,
    sha256,
  }
  return { stored, depth: from ? from.depth + 1 : 0, middle }
}

/**
 * The whole body; null if the earlier one is shorter than the record says. `middle`: the inline bytes, or those of the
 * blob; `earlier`: the whole body of the turn `stored.from`.
 */
export const expandBody = (stored: StoredBody, middle: Uint8Array, earlier: Uint8Array | null): Uint8Array | null => {
  if (stored.from === null || !earlier) return middle
  if (stored.prefix < 0 || stored.suffix < 0 || Math.max(stored.prefix, stored.suffix) > earlier.length) return null
  const body = new Uint8Array(stored.prefix + middle.length + stored.suffix)
  body.set(earlier.subarray(0, stored.prefix), 0)
  body.set(middle, stored.prefix)
  if (stored.suffix > 0) body.set(earlier.subarray(earlier.length - stored.suffix), stored.prefix + middle.length)
  return body
}

/** `earlier.content`: prompt ids and completion ids of the earlier turn. `depth`: as in `storeBody`. */
export const storeIds = (
  ids: readonly number[],
  earlier: Earlier<readonly number[]> | null,
): { stored: StoredIds; depth: number } => {
  const usable = earlier && earlier.depth < MAX_DEPTH ? earlier : null
  let prefix = 0
  if (usable)
    while (prefix < ids.length && prefix < usable.content.length && ids[prefix] === usable.content[prefix]) prefix += 1
  const from = usable && prefix >= MIN_REPEAT / 4 ? usable : null
  return {
    stored: {
      from: from?.turn ?? null,
      prefix: from ? prefix : 0,
      ids: ids.slice(from ? prefix : 0),
      length: ids.length,
    },
    depth: from ? from.depth + 1 : 0,
  }
}

/** The whole prompt ids. `earlier`: prompt ids and completion ids of the turn `stored.from`. */
export const expandIds = (stored: StoredIds, earlier: readonly number[] | null): number[] =>
  stored.from === null || !earlier ? stored.ids : [...earlier.slice(0, stored.prefix), ...stored.ids]

/** Bytes that are compared with one native call. */
const BLOCK = 4096

const commonPrefix = (a: Uint8Array, b: Uint8Array): number => {
  const end = Math.min(a.length, b.length)
  let n = 0
  while (n + BLOCK <= end && Buffer.compare(a.subarray(n, n + BLOCK), b.subarray(n, n + BLOCK)) === 0) n += BLOCK
  while (n < end && a[n] === b[n]) n += 1
  return n
}

const commonSuffix = (a: Uint8Array, b: Uint8Array, prefix: number): number => {
  const end = Math.min(a.length, b.length) - prefix
  let n = 0
  while (
    n + BLOCK <= end &&
    Buffer.compare(a.subarray(a.length - n - BLOCK, a.length - n), b.subarray(b.length - n - BLOCK, b.length - n)) === 0
  )
    n += BLOCK
  while (n < end && a[a.length - 1 - n] === b[b.length - 1 - n]) n += 1
  return n
}
