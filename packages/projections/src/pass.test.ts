import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, written } from '@instar/events/codec'
import { openMemoryLog } from '@instar/log'
import { scored, turn } from '../../../test/kit/projected-history.ts'
import type { DatabaseSession } from './database-session.ts'
import { MOST_BYTES, startPass } from './pass.ts'
import type { Sink } from './sink.ts'

const MIB = 1 << 20

test('a transaction is bounded in bytes as in records, and memory holds two', async () => {
  const log = openMemoryLog()
  const record = (i: number, hint: string) =>
    encodeEvent(scored(turn({ session: 's', name: `${i}`, says: '' }), 1, { hint: written(hint) }))
  for (let i = 0; i < 40; i++) await log.append([record(i, 'x'.repeat(MIB))])
  for (let i = 40; i < 1040; i++) await log.append([record(i, 'short')])
  const sizes: { records: number; bytes: number }[] = []
  const sink = {
    async write(rows, advances) {
      const bytes = JSON.stringify(rows).length
      sizes.push({ records: advances.reduce((sum, { from, to }) => sum + to.next - from.next, 0), bytes })
      return true
    },
  } as Pick<Sink, 'write'> as Sink
  const session: DatabaseSession = {
    onBroken: () => undefined,
    use: (work) => work(sink),
    close: async () => undefined,
  }
  const pass = await startPass({
    log,
    session,
    marks: new Map(),
    batch: 500,
    linger: 60_000,
    group: 'test',
    snapshots: undefined,
  })
  await pass.caughtUp()
  await pass.stop()
  assert.equal(
    sizes.reduce((sum, { records }) => sum + records, 0),
    1040,
  )
  assert.ok(
    sizes.every(({ bytes }) => bytes < MOST_BYTES + 2 * MIB),
    sizes.map(({ bytes }) => bytes).join(),
  )
  assert.ok(sizes.length >= 7 && sizes.length <= 9, 'small records share transactions of 500')
})

test('a position that the database has no row for ends the pass with an error', async () => {
  const log = openMemoryLog()
  await log.append([encodeEvent(scored(turn({ session: 's', name: '1', says: '' }), 1, {}))])
  let writes = 0
  const sink = {
    async write() {
      writes += 1
      if (writes > 5) throw new Error('the write is repeated')
      return false
    },
    marks: async () => new Map(),
  } as Pick<Sink, 'write' | 'marks'> as Sink
  const session: DatabaseSession = {
    onBroken: () => undefined,
    use: (work) => work(sink),
    close: async () => undefined,
  }
  const pass = await startPass({
    log,
    session,
    marks: new Map(),
    batch: 500,
    linger: 60_000,
    group: 'test',
    snapshots: undefined,
  })
  await assert.rejects(pass.caughtUp(), { code: 'data_unreadable', message: /no such partition/ })
  await assert.rejects(pass.done, { code: 'data_unreadable' })
  assert.equal(writes, 1)
})
