import { contentSha, encodeEvent, InstarError, type BlobChunk } from '@instar/events'
import assert from 'node:assert/strict'
import test from 'node:test'
import { CHUNK_BYTES, getBlob, putBlob } from './blobs.ts'
import { openMemoryLog } from './memory/log.ts'
import type { EventLog } from './port.ts'

const AT = 1_700_000_000_000
const bytesOf = (length: number, salt = 0): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8) * 7 + salt) & 255)

const chunksOn = async (log: EventLog): Promise<number> => {
  let count = 0
  for await (const records of log.read('blobs')) count += records.length
  return count
}

const addChunk = async (log: EventLog, chunk: Omit<BlobChunk, 'type' | 'at'>): Promise<void> => {
  await log.append([encodeEvent({ type: 'BlobChunk', at: AT, ...chunk })])
}

const missing = (error: unknown): boolean => error instanceof InstarError && error.code === 'missing_blob'

test('a blob of 0 bytes, one full chunk, one byte more and three chunks is read unchanged', async () => {
  for (const [length, chunks] of [
    [0, 1],
    [1, 1],
    [CHUNK_BYTES, 1],
    [CHUNK_BYTES + 1, 2],
    [3 * CHUNK_BYTES - 5, 3],
  ] as const) {
    const log = openMemoryLog()
    const bytes = bytesOf(length)
    const sha256 = await putBlob(log, bytes, AT)
    assert.equal(sha256, contentSha(bytes))
    assert.equal(await chunksOn(log), chunks, `${length} bytes`)
    assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT)), Buffer.from(bytes))
  }
})

test('chunks with other bytes, another count or an invalid index do not hide valid chunks', async () => {
  const log = openMemoryLog()
  const bytes = bytesOf(2 * CHUNK_BYTES + 9)
  const sha256 = contentSha(bytes)
  for (const index of [0, 1, 2]) await addChunk(log, { sha256, index, count: 3, bytes: bytesOf(10, index) })
  await addChunk(log, { sha256, index: 0, count: 2, bytes: bytesOf(5) })
  await addChunk(log, { sha256, index: 7, count: 3, bytes: bytesOf(6) })
  await assert.rejects(getBlob(log, sha256, AT), missing)
  await putBlob(log, bytes, AT)
  await addChunk(log, { sha256, index: 1, count: 3, bytes: bytesOf(11) })
  assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT)), Buffer.from(bytes))
})

test('a complete blob is found among 30 invalid chunks', async () => {
  const log = openMemoryLog()
  const bytes = bytesOf(3 * CHUNK_BYTES)
  const sha256 = contentSha(bytes)
  await putBlob(log, bytes, AT)
  for (let i = 0; i < 30; i += 1) await addChunk(log, { sha256, index: i % 3, count: 3, bytes: bytesOf(10, i) })
  await putBlob(log, bytes, AT)
  assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT)), Buffer.from(bytes))
  const late = openMemoryLog()
  for (let i = 0; i < 30; i += 1) await addChunk(late, { sha256, index: i % 3, count: 3, bytes: bytesOf(10, i) })
  await putBlob(late, bytes, AT)
  assert.deepEqual(Buffer.from(await getBlob(late, sha256, AT)), Buffer.from(bytes))
})

test('a blob without one of its chunks, and one that was never written, throw missing_blob', async () => {
  const log = openMemoryLog()
  const bytes = bytesOf(2 * CHUNK_BYTES)
  const sha256 = contentSha(bytes)
  await addChunk(log, { sha256, index: 1, count: 2, bytes: bytes.slice(CHUNK_BYTES) })
  await assert.rejects(getBlob(log, sha256, AT), missing)
  await assert.rejects(getBlob(log, contentSha(bytesOf(3)), AT), missing)
  await addChunk(log, { sha256, index: 0, count: 2, bytes: bytes.slice(0, CHUNK_BYTES) })
  assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT)), Buffer.from(bytes), 'chunks in any order')
})

test('a blob that is written again, in part or whole, is read unchanged', async () => {
  const log = openMemoryLog()
  const bytes = bytesOf(CHUNK_BYTES + 1)
  const sha256 = contentSha(bytes)
  await addChunk(log, { sha256, index: 0, count: 2, bytes: bytes.slice(0, CHUNK_BYTES) })
  assert.equal(await putBlob(log, bytes, AT), sha256)
  assert.equal(await putBlob(log, bytes, AT + 5), sha256)
  assert.equal(await chunksOn(log), 5)
  assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT)), Buffer.from(bytes))
})

test('a blob is searched from ten minutes before the given time', async () => {
  const log = openMemoryLog()
  const bytes = bytesOf(100)
  const sha256 = await putBlob(log, bytes, AT)
  assert.deepEqual(Buffer.from(await getBlob(log, sha256, AT + 9 * 60_000)), Buffer.from(bytes))
  await assert.rejects(getBlob(log, sha256, AT + 11 * 60_000), missing)
})
