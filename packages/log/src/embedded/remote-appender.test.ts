/** The embedded log in a second thread of the writing process: the contract suite, and both threads together. */
import { InstarError } from '@instar/events/errors'
import { fromPlain, type PlainError } from '@instar/events/plain-error'
import { openEmbeddedLog, openJoinedLog, type EventLog, type LogRecord } from '../index.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import { eventLogFeatures } from '../../../../test/kit/event-log/features.ts'
import {
  all,
  note,
  range,
  SCHEMAS,
  textOf,
  type OpenOptions,
  type Opened,
} from '../../../../test/kit/event-log/harness.ts'

const HOLDER = fileURLToPath(new URL('../../../../test/kit/event-log/processes/holder-thread.ts', import.meta.url))

/** Opens the log in a worker and joins it from this thread, so that the writer runs while this thread is busy. */
const openJoined = async (options: OpenOptions = {}): Promise<Opened> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  const opened: EventLog[] = []
  const open = async (again: OpenOptions): Promise<EventLog> => {
    const { port1, port2 } = new MessageChannel()
    const holder = new Worker(HOLDER, {
      workerData: { options: { folder, schemas: SCHEMAS, ...options, ...again }, port: port1 },
      transferList: [port1],
    })
    const exited = once(holder, 'exit')
    const [error] = (await once(holder, 'message')) as [PlainError | null]
    if (error) throw fromPlain(error)
    const joined = openJoinedLog(folder, SCHEMAS, port2)
    const log: EventLog = {
      append: (records) => joined.append(records),
      subscribe: (options) => joined.subscribe(options),
      read: (topic, options) => joined.read(topic, options),
      joinGroup: (group, topic, onChange) => joined.joinGroup(group, topic, onChange),
      at: (position) => joined.at(position),
      ends: (topics) => joined.ends(topics),
      partitions: (topic) => joined.partitions(topic),
      async close() {
        await joined.close()
        holder.postMessage('close')
        await exited
      },
    }
    opened.push(log)
    return log
  }
  return {
    log: await open({}),
    reopen: (again = {}) => open(again),
    async remove() {
      for (const log of opened) await log.close()
      await rm(folder, { recursive: true })
    },
    elsewhere: { module: new URL('../../../../test/kit/event-log/embedded.ts', import.meta.url).href, place: folder },
  }
}

// The writer that is killed opens the log as in log.test.ts, 20 times there; here the reader after it is another one.
eventLogFeatures('joined', openJoined, { kills: 3, cuts: false })

describe('the log in a second thread', () => {
  const feature = (title: string, body: (folder: string) => Promise<void>): void => {
    test(title, { timeout: 30_000 }, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
      try {
        await body(folder)
      } finally {
        await rm(folder, { recursive: true })
      }
    })
  }

  feature('appends in order, and both threads read the records of both', async (folder) => {
    const holder = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    const { port1, port2 } = new MessageChannel()
    holder.join(port1)
    const worker = new Worker(
      fileURLToPath(new URL('../../../../test/kit/event-log/processes/joined-thread.ts', import.meta.url)),
      {
        workerData: { folder, port: port2 },
        transferList: [port2],
      },
    )
    const exited = once(worker, 'exit')
    const delivered: string[] = []
    const subscription = await holder.subscribe({
      topics: ['turns'],
      group: 'g',
      from: 'start',
      handle: (records) => {
        delivered.push(...records.map(textOf))
      },
    })
    await once(worker, 'message')
    for (const i of range(50)) await holder.append([note('first', `first ${i}`)])
    worker.postMessage('go')
    const [readByWorker] = (await once(worker, 'message')) as [string[]]
    await subscription.caughtUp()
    const stored = (await all(holder.read('turns'))).map(textOf)
    assert.deepEqual(
      stored.filter((text) => text.startsWith('second')),
      range(50).map((i) => `second ${i}`),
    )
    assert.equal(stored.length, 100)
    assert.deepEqual([...readByWorker].sort(), [...stored].sort())
    assert.deepEqual([...delivered].sort(), [...stored].sort())
    await subscription.stop()
    await holder.close()
    await exited
  })

  feature(
    'rejects with the error of the first thread, and with log_unavailable once that log is closed',
    async (folder) => {
      const holder = await openEmbeddedLog({ folder, schemas: SCHEMAS })
      const { port1, port2 } = new MessageChannel()
      holder.join(port1)
      const joined = openJoinedLog(folder, SCHEMAS, port2)
      const refused =
        (code: string) =>
        (error: unknown): boolean =>
          error instanceof InstarError && error.code === code
      await assert.rejects(joined.append([{ ...note('k', 'x'), schema: 'Unknown.v1' }]), refused('bad_record'))
      await joined.append([note('k', 'one')])
      await holder.close()
      await assert.rejects(joined.append([note('k', 'two')]), refused('log_unavailable'))
      await joined.close()
      const reader = await openEmbeddedLog({ folder, readOnly: true })
      assert.throws(() => reader.join(new MessageChannel().port1), refused('log_read_only'))
      await reader.close()
    },
  )

  feature('is told of turns together, with the next record of another topic at the latest', async (folder) => {
    const holder = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    const { port1, port2 } = new MessageChannel()
    holder.join(port1, 2 ** 31 - 1)
    const told: unknown[] = []
    port2.on('message', (message) => told.push(message))
    for (const i of range(5)) await holder.append([note('k', `turn ${i}`)])
    const other = once(port2, 'message')
    await holder.append([note('k', 'head', { topic: 'weights' })])
    await other
    assert.deepEqual(told, ['changed'])
    // Without a record of another topic after a while.
    const next = new MessageChannel()
    holder.join(next.port1, 1)
    const turns = once(next.port2, 'message')
    await holder.append([note('k', 'last')])
    assert.deepEqual(await turns, ['changed'])
    port2.close()
    next.port2.close()
    await holder.close()
  })

  feature('reads turns that it was not told of when their end is waited for', async (folder) => {
    const holder = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    const { port1, port2 } = new MessageChannel()
    holder.join(port1, 2 ** 31 - 1)
    const joined = openJoinedLog(folder, SCHEMAS, port2)
    const read: string[] = []
    const handle = (records: readonly LogRecord[]): void => void read.push(...records.map(textOf))
    const subscription = await joined.subscribe({ topics: ['turns'], group: 'late', from: 'start', handle })
    await subscription.caughtUp()
    await holder.append([note('k', 'one')])
    await subscription.caughtUp()
    assert.deepEqual(read, ['one'])
    await subscription.stop()
    await joined.close()
    await holder.close()
  })
})
