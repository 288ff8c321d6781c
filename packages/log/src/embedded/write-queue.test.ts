import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Append } from '../port.ts'
import { openEmbeddedLog } from './log.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
/** Memory of buffers is freed beside a collection, and has been when the next one begins. */
const collect = (): void => {
  gc()
  gc()
}
const MIB = 1024 * 1024

const opened = async (t: TestContext) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-queue-'))
  const log = await openEmbeddedLog({ folder, schemas: { 'Any.v1': '"bytes"' } })
  t.after(async () => {
    await log.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return log
}
const record = (key: string, bytes: number): Append => ({
  topic: 'blobs',
  key,
  schema: 'Any.v1',
  payload: Buffer.alloc(bytes, key),
  timestamp: 1,
})

test('large appends at the same time are written in order, and leave no memory with the writing thread', async (t) => {
  const log = await opened(t)
  const round = async (name: number): Promise<void> => {
    const appended = await Promise.all(
      Array.from({ length: 24 }, (_, i) => log.append([record(`${name}`, 512 * 1024 + i)])),
    )
    const offsets = appended.map(([position]) => position!.offset)
    assert.deepEqual(
      offsets,
      offsets.map((_, i) => 24 * name + i),
    )
  }
  await round(0)
  collect()
  const before = process.memoryUsage().arrayBuffers
  for (let name = 1; name <= 12; name += 1) await round(name)
  collect()
  const grown = process.memoryUsage().arrayBuffers - before
  t.diagnostic(`${(grown / MIB).toFixed(1)} MiB more after ${(12 * 24) / 2} MiB`)
  assert.ok(grown < 16 * MIB, `${grown} bytes`)
  const sizes: number[] = []
  for await (const batch of log.read('blobs')) for (const { payload } of batch) sizes.push(payload.length - 512 * 1024)
  assert.deepEqual(
    sizes,
    Array.from({ length: 13 * 24 }, (_, i) => i % 24),
  )
})

test('commits that wait are as bounded as records', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-queue-'))
  const log = await openEmbeddedLog({ folder, schemas: { 'Any.v1': '"bytes"' }, queue: { records: 4 } })
  t.after(async () => {
    await log.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const [position] = await log.append([record('a', 1)])
  const subscription = await log.subscribe({ topics: ['blobs'], group: 'g', from: 'start', handle: () => undefined })
  const large = log.append([record('b', 5 * MIB)])
  const commits = await Promise.allSettled(Array.from({ length: 9 }, () => subscription.commit([position!])))
  assert.deepEqual(
    commits.map((one) => (one.status === 'fulfilled' ? 'written' : (one.reason as { code: string }).code)),
    [...Array<string>(4).fill('written'), ...Array<string>(5).fill('log_full')],
  )
  await large
  await subscription.commit([position!])
  await subscription.stop()
})
