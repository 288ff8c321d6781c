/** Topics whose records may be delivered late (`gather`), on a real broker. */
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { NOTE, note, SCHEMAS, textOf } from '../kit/event-log/harness.ts'
import { addresses } from '../kit/stack.ts'

/** Longer than the test. */
const MS = 600_000

test(
  'records of a topic that may be late wait while those of others are delivered at once, and not for whoever waits for all',
  { timeout: 60_000 },
  async () => {
    const { brokers } = addresses()
    const prefix = `gather${process.pid}.`
    await setupKafka({ brokers, prefix })
    const registry = new Map([[NOTE, 1]])
    const log = await openKafkaLog({ brokers, prefix, clientId: 'gathering', schemas: SCHEMAS, registry })
    try {
      const read: string[] = []
      let onRead = (): void => undefined
      const subscription = await log.subscribe({
        topics: ['turns', 'updates'],
        group: 'g',
        from: 'start',
        gather: { topics: ['turns'], ms: MS },
        handle(records) {
          read.push(...records.map(textOf))
          onRead()
        },
      })
      const append = (topic: 'turns' | 'updates', text: string): Promise<unknown> =>
        log.append([note('k', text, { topic })])
      /** Resolves when so many records were read. */
      const reads = (count: number): Promise<void> =>
        new Promise((resolve) => {
          onRead = () => {
            if (read.length >= count) resolve()
          }
          onRead()
        })
      await append('turns', 'first')
      await reads(1)
      await append('turns', 'late 1')
      await append('updates', 'urgent 1')
      await append('turns', 'late 2')
      await append('updates', 'urgent 2')
      await reads(3)
      assert.deepEqual(read, ['first', 'urgent 1', 'urgent 2'])
      await subscription.caughtUp()
      assert.deepEqual(read.slice(3), ['late 1', 'late 2'])
      // Whoever waited has what was asked for: the fetch behind it names no late topic.
      await append('turns', 'late 3')
      await append('updates', 'urgent 3')
      await reads(6)
      assert.deepEqual(read.slice(5), ['urgent 3'])
      await subscription.stop()
    } finally {
      await log.close()
    }
  },
)

test(
  'where all topics may be late, nothing is fetched until somebody waits for all records, who then has them without a timer',
  { timeout: 60_000 },
  async (t) => {
    const { brokers } = addresses()
    const prefix = `gatherall${process.pid}.`
    await setupKafka({ brokers, prefix })
    const registry = new Map([[NOTE, 1]])
    const log = await openKafkaLog({ brokers, prefix, clientId: 'gathering', schemas: SCHEMAS, registry })
    try {
      const read: string[] = []
      const first = Promise.withResolvers<void>()
      const subscription = await log.subscribe({
        topics: ['turns'],
        group: 'g',
        from: 'start',
        gather: { topics: ['turns'], ms: MS },
        handle(records) {
          read.push(...records.map(textOf))
          first.resolve()
        },
      })
      await log.append([note('k', 'first', { topic: 'turns' })])
      await first.promise
      await log.append([note('k', 'late', { topic: 'turns' })])
      t.mock.timers.enable({ apis: ['setTimeout'] })
      assert.deepEqual(read, ['first'])
      // Timers of the test itself do not run either.
      const late = once(AbortSignal.timeout(20_000), 'abort').then(() => assert.fail('it waits for a timer'))
      await Promise.race([subscription.caughtUp(), late])
      assert.deepEqual(read, ['first', 'late'])
      t.mock.timers.reset()
      await subscription.stop()
    } finally {
      await log.close()
    }
  },
)

test(
  'a log is closed at once while fetches wait for a record, so that the process can exit',
  { timeout: 60_000 },
  async () => {
    const { brokers } = addresses()
    const prefix = `gatherclose${process.pid}.`
    await setupKafka({ brokers, prefix })
    const registry = new Map([[NOTE, 1]])
    const sockets = (): number => process.getActiveResourcesInfo().filter((what) => what === 'TCPSocketWrap').length
    const before = sockets()
    const log = await openKafkaLog({ brokers, prefix, clientId: 'gathering', schemas: SCHEMAS, registry })
    const first = Promise.withResolvers<void>()
    await log.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => first.resolve() })
    await log.append([note('k', 'first', { topic: 'turns' })])
    // The next fetch is sent before a record is handled.
    await first.promise
    const begin = performance.now()
    await log.close()
    while (sockets() > before) await setImmediate()
    // A fetch waits 5 s.
    assert.ok(performance.now() - begin < 2_500)
  },
)
