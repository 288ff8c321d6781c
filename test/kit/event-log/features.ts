/** The contract of the event log (packages/log/src/port.ts), for every backend. */
import { InstarError } from '@instar/events/errors'
import { partitionOf, type EventLog, type LogRecord, type Position, type PartitionAssignment } from '@instar/log'
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { cuttingFeatures } from './cutting.ts'
import { killingTheWriter, readingElsewhere } from './processes.ts'
import { all, byKey, note, range, textOf, type OpenOptions, type Opened } from './harness.ts'

export const eventLogFeatures = (
  name: string,
  open: (options?: OpenOptions) => Promise<Opened>,
  /** `kills`: of a writer in another process; 0: the log is in the memory of one process. `cuts`: it can be cut. */
  { kills = 20, cuts = true } = {},
): void => {
  const feature = (title: string, run: (opened: Opened) => Promise<void>, options?: OpenOptions): void => {
    test(title, { timeout: 30_000 }, async () => {
      const opened = await open(options)
      try {
        await run(opened)
      } finally {
        await opened.remove()
      }
    })
  }

  describe(`event log: ${name}`, () => {
    describe('appending', () => {
      feature('keeps the records of one key in order under concurrent appends', async ({ log }) => {
        await Promise.all(
          range(40).map(async (caller) => {
            for (const i of range(15))
              await log.append([
                note(`k${caller}`, `${i}a`),
                note(`other${caller}`, `${i}`),
                note(`k${caller}`, `${i}b`),
              ])
          }),
        )
        const records = await all(log.read('turns'))
        assert.equal(records.length, 40 * 15 * 3)
        const keys = byKey(records)
        for (const caller of range(40)) {
          assert.deepEqual(
            keys.get(`k${caller}`),
            range(15).flatMap((i) => [`${i}a`, `${i}b`]),
          )
          assert.deepEqual(keys.get(`other${caller}`), range(15).map(String))
        }
      })

      feature('keeps the order of concurrent calls of one caller', async ({ log }) => {
        await Promise.all(range(200).map((i) => log.append([note('k', String(i))])))
        assert.deepEqual(byKey(await all(log.read('turns'))).get('k'), range(200).map(String))
      })

      feature('returns positions in the order of the records', async ({ log }) => {
        const texts = range(50).map((i) => ({
          key: `k${i % 7}`,
          text: `t${i}`,
          topic: i % 2 ? ('turns' as const) : ('scores' as const),
        }))
        const positions = await log.append(texts.map(({ key, text, topic }) => note(key, text, { topic })))
        assert.equal(positions.length, 50)
        for (const [i, position] of positions.entries()) {
          const { key, text, topic } = texts[i]!
          assert.equal(position.topic, topic)
          assert.equal(position.partition, partitionOf(key, log.partitions(topic)))
          const record = await log.at(position)
          assert.deepEqual(
            [record?.key, record && textOf(record), record?.offset, record?.partition],
            [key, text, position.offset, position.partition],
          )
        }
        assert.equal(await log.at({ ...positions[0]!, offset: positions[0]!.offset + 1_000_000 }), undefined)
      })

      feature('gives growing offsets within a partition, below the ends', async ({ log }) => {
        const last = new Map<number, number>()
        for (const i of range(60)) {
          const [position] = await log.append([note(`k${i % 9}`, String(i))])
          assert.ok(position!.offset > (last.get(position!.partition) ?? -1))
          last.set(position!.partition, position!.offset)
          const ends = await log.ends(['turns'])
          assert.ok(position!.offset < ends.turns![position!.partition]!)
        }
      })

      feature('has acknowledged records after it is opened again', async (opened) => {
        const positions = await opened.log.append(range(20).map((i) => note(`k${i}`, `t${i}`, { timestamp: 1000 + i })))
        const ends = await opened.log.ends(['turns'])
        await opened.log.close()
        const log = await opened.reopen()
        for (const [i, position] of positions.entries()) {
          const record = (await log.at(position))!
          assert.deepEqual(
            [record.key, textOf(record), record.timestamp, record.schema],
            [`k${i}`, `t${i}`, 1000 + i, 'Note.v1'],
          )
        }
        assert.deepEqual(await log.ends(['turns']), ends)
        const [next] = await log.append([note('k0', 'next')])
        assert.ok(next!.offset >= ends.turns![next!.partition]!)
      })

      feature('stores 1 MB and 0 bytes unchanged', async ({ log }) => {
        const payload = new Uint8Array(1 << 20).map((_, i) => (i * 31 + (i >> 8)) & 255)
        const record = note('big', '')
        const [large, empty] = await log.append([{ ...record, payload }, record])
        assert.ok(Buffer.from(payload).equals((await log.at(large!))!.payload))
        assert.equal((await log.at(empty!))!.payload.length, 0)
      })

      feature('does not change the buffers of callers', async ({ log }) => {
        const record = note('k', 'before')
        const pending = log.append([record])
        const [position] = await pending
        record.payload.fill(0)
        assert.equal(textOf((await log.at(position!))!), 'before')
        assert.equal(record.payload.length, 6)
      })

      feature('gives followers the appended bytes, also after the caller changes its buffer', async ({ log }) => {
        const seen: string[] = []
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'start',
          handle: (records) => {
            seen.push(...records.map(textOf))
          },
        })
        await subscription.caughtUp()
        const record = note('k', 'before')
        await log.append([record])
        record.payload.fill(0)
        await subscription.caughtUp()
        assert.deepEqual(seen, ['before'])
        await subscription.stop()
      })

      feature('refuses a whole call with a record that it cannot return', async ({ log }) => {
        for (const bad of [
          note('', 'x'),
          note('\ud800', 'x'),
          { ...note('k', 'x'), schema: '' },
          { ...note('k', 'x'), timestamp: 0.5 },
        ]) {
          await assert.rejects(
            log.append([note('fine', 'x'), bad]),
            (error) => error instanceof InstarError && error.code === 'bad_record',
          )
        }
        assert.deepEqual(await all(log.read('turns')), [])
        assert.deepEqual(await log.append([]), [])
      })

      feature('keeps keys in all scripts', async ({ log }) => {
        const keys = ['é', '日本語', '🦋', 'ß'.repeat(200), ' spaced ', 'a/b~c']
        await log.append(keys.map((key) => note(key, key)))
        for (const key of keys) assert.deepEqual((await all(log.read('turns', { key }))).map(textOf), [key])
      })
    })

    describe('back-pressure', () => {
      feature(
        'refuses a call when the queue is full and writes none of it',
        async ({ log }) => {
          const outcomes = await Promise.allSettled(
            range(200).map((i) => log.append([note('k', `${i}a`), note('k', `${i}b`)])),
          )
          const kept = range(200).filter((i) => outcomes[i]!.status === 'fulfilled')
          const reasons = outcomes.flatMap((outcome) =>
            outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
          )
          assert.ok(kept.length >= 25 && reasons.length > 0, `${kept.length} of 200 were taken`)
          for (const reason of reasons)
            assert.ok(reason instanceof InstarError && reason.code === 'log_full' && reason.retryable)
          assert.deepEqual(
            (await all(log.read('turns'))).map(textOf),
            kept.flatMap((i) => [`${i}a`, `${i}b`]),
          )
          await log.append([note('k', 'room again')])
        },
        { queue: { records: 50 } },
      )

      feature(
        'limits the queue by bytes and by records',
        async ({ log }) => {
          const outcomes = await Promise.allSettled(
            range(10).map((i) => log.append([note('k', String(i).repeat(40_000))])),
          )
          assert.equal(outcomes[0]!.status, 'fulfilled')
          assert.ok(
            outcomes.some(
              (outcome) =>
                outcome.status === 'rejected' &&
                outcome.reason instanceof InstarError &&
                outcome.reason.code === 'log_full',
            ),
          )
        },
        { queue: { bytes: 100_000 } },
      )

      feature(
        'accepts one call that is larger than the empty queue',
        async ({ log }) => {
          assert.equal((await log.append(range(100).map((i) => note('k', String(i))))).length, 100)
        },
        { queue: { records: 10 } },
      )
    })

    describe('reading', () => {
      feature('reads one partition alone', async ({ log }) => {
        const positions = await log.append(range(60).map((i) => note(`k${i % 11}`, String(i))))
        for (const partition of range(log.partitions('turns'))) {
          const here = positions.flatMap((position, i) => (position.partition === partition ? [i] : []))
          assert.deepEqual((await all(log.read('turns', { partition }))).map(textOf), here.map(String))
          const from = { turns: { [partition]: positions[here[1] ?? 0]!.offset } }
          if (here.length > 1)
            assert.deepEqual((await all(log.read('turns', { partition, from }))).map(textOf), here.slice(1).map(String))
        }
      })

      feature('reads from and to a position', async ({ log }) => {
        const positions = await log.append(range(60).map((i) => note(`k${i % 5}`, String(i))))
        const key = 'k2'
        const mine = positions.map((position, i) => ({ position, text: String(i) })).filter((_, i) => i % 5 === 2)
        const { partition } = mine[0]!.position
        const from = { turns: { [partition]: mine[3]!.position.offset } }
        const to = { turns: { [partition]: mine[9]!.position.offset } }
        assert.deepEqual(
          (await all(log.read('turns', { from, to, key }))).map(textOf),
          mine.slice(3, 9).map(({ text }) => text),
        )
        const rest = await all(log.read('turns', { from }))
        assert.deepEqual(
          rest.filter((record) => record.key === key).map(textOf),
          mine.slice(3).map(({ text }) => text),
        )
        assert.equal(
          rest.filter((record) => record.partition !== partition).length,
          positions.filter((position) => position.partition !== partition).length,
        )
      })

      feature('ends a read at the end that the log had when it was requested', async ({ log }) => {
        await log.append(range(30).map((i) => note(`k${i}`, 'before')))
        const reading = log.read('turns', { maxBatch: 7 })
        await log.append(range(30).map((i) => note(`k${i}`, 'after')))
        const texts = (await all(reading)).map(textOf)
        assert.deepEqual(
          texts,
          range(30).map(() => 'before'),
        )
      })

      feature('reads from and to a time', async ({ log }) => {
        const times = [100, 110, 105, 120, 130, 125, 140]
        for (const timestamp of times)
          await log.append([
            note('k', String(timestamp), { timestamp }),
            note('other key', String(timestamp), { timestamp }),
          ])
        const read = async (options: Parameters<EventLog['read']>[1]) => byKey(await all(log.read('turns', options)))
        for (const key of ['k', 'other key']) {
          assert.deepEqual((await read({ from: { time: 110 } })).get(key), ['110', '105', '120', '130', '125', '140'])
          assert.deepEqual((await read({ from: { time: 106 }, to: { time: 126 } })).get(key), ['110', '105', '120'])
          assert.deepEqual((await read({ from: { time: 0 } })).get(key), times.map(String))
          assert.equal((await read({ from: { time: 141 } })).get(key), undefined)
          assert.deepEqual((await read({ to: { time: 141 } })).get(key), times.map(String))
        }
      })

      feature('shows a prefix of every partition during appends', async ({ log }) => {
        let writing = true
        const writers = Promise.all(
          range(8).map(async (caller) => {
            for (const i of range(60)) await log.append([note(`k${caller}`, String(i)), note(`k${caller}`, `${i}'`)])
          }),
        ).finally(() => {
          writing = false
        })
        let reads = 0
        while (writing) {
          for (const texts of byKey(await all(log.read('turns', { maxBatch: 16 }))).values()) {
            assert.deepEqual(
              texts,
              range(60)
                .flatMap((i) => [String(i), `${i}'`])
                .slice(0, texts.length),
            )
          }
          reads++
        }
        await writers
        assert.ok(reads > 0)
      })

      feature('refuses a position that is not of this log', async ({ log }) => {
        await log.append([note('k', 'only')])
        const beyond = { turns: { [partitionOf('k', log.partitions('turns'))]: 1000 } }
        const unknown = (error: unknown): boolean => error instanceof InstarError && error.code === 'position_unknown'
        await assert.rejects(async () => all(log.read('turns', { from: beyond })), unknown)
        await assert.rejects(log.subscribe({ topics: ['turns'], group: 'g', from: beyond, handle: () => {} }), unknown)
        await assert.rejects(
          log.subscribe({ topics: ['turns'], group: 'g', from: { turns: { 999: 0 } }, handle: () => {} }),
          unknown,
        )
      })
    })

    describe('subscribing', () => {
      feature('delivers stored and new records, one partition at a time', async ({ log }) => {
        const seen: LogRecord[] = []
        await log.append(range(40).map((i) => note(`k${i % 6}`, String(i))))
        const subscription = await log.subscribe({
          topics: ['turns', 'scores'],
          group: 'g',
          from: 'start',
          maxBatch: 5,
          handle: (records) => {
            assert.ok(records.length <= 5)
            assert.equal(new Set(records.map(({ topic, partition }) => `${topic}${partition}`)).size, 1)
            seen.push(...records)
          },
        })
        await subscription.caughtUp()
        assert.equal(seen.length, 40)
        await Promise.all(
          range(40).map((i) => log.append([note(`k${i % 6}`, String(40 + i), { topic: i % 2 ? 'turns' : 'scores' })])),
        )
        await subscription.caughtUp()
        assert.equal(seen.length, 80)
        for (const topic of ['turns', 'scores'] as const) {
          for (const texts of byKey(seen.filter((record) => record.topic === topic)).values()) {
            assert.deepEqual(
              texts,
              texts.toSorted((a, b) => Number(a) - Number(b)),
            )
          }
        }
        await subscription.stop()
        await log.append([note('k1', 'later')])
        assert.equal(seen.length, 80)
        await subscription.done
      })

      feature('wakes a waiting reader on an append', async ({ log }) => {
        const arrived = Promise.withResolvers<string>()
        const subscription = await log.subscribe({
          topics: ['weights'],
          group: 'g',
          from: 'start',
          handle: ([first]) => arrived.resolve(textOf(first!)),
        })
        await subscription.caughtUp()
        await log.append([note('p', 'news', { topic: 'weights' })])
        assert.equal(await arrived.promise, 'news')
        await subscription.stop()
      })

      feature('resumes a group at its commits and repeats uncommitted records', async (opened) => {
        const { log } = opened
        await log.append(range(30).map((i) => note('k', String(i))))
        const first: string[] = []
        const subscribing = log.subscribe({
          topics: ['turns'],
          group: 'workers',
          from: 'committed',
          maxBatch: 10,
          handle: async (records) => {
            first.push(...records.map(textOf))
            const last = records.at(-1)!
            if (first.length === 20)
              await (await subscribing).commit([{ ...positionOf(last), offset: last.offset + 1 }])
          },
        })
        const subscription = await subscribing
        await subscription.caughtUp()
        await subscription.stop()
        assert.deepEqual(first, range(30).map(String))
        await log.close()

        const again = await opened.reopen()
        const delivered = async (group: string): Promise<string[]> => {
          const texts: string[] = []
          const reader = await again.subscribe({
            topics: ['turns'],
            group,
            from: 'committed',
            handle: (records) => void texts.push(...records.map(textOf)),
          })
          await reader.caughtUp()
          await reader.stop()
          return texts
        }
        assert.deepEqual(await delivered('workers'), range(30).slice(20).map(String))
        assert.deepEqual(await delivered('others'), range(30).map(String))
      })

      feature('starts a subscription at given positions', async ({ log }) => {
        const positions = await log.append(range(10).map((i) => note('k', String(i))))
        const { partition, offset } = positions[6]!
        const texts: string[] = []
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: { turns: { [partition]: offset } },
          handle: (records) => void texts.push(...records.map(textOf)),
        })
        await subscription.caughtUp()
        assert.deepEqual(texts, ['6', '7', '8', '9'])
        await subscription.stop()
      })

      feature(
        'delivers of a topic by partition only those that are taken, each from its own offset',
        async ({ log }) => {
          const keys = range(40).map((i) => `k${i}`)
          const partitionOfKey = (key: string): number => partitionOf(key, log.partitions('turns'))
          const [one, other] = [...new Set(keys.map(partitionOfKey))] as [number, number]
          const round = (name: string): Promise<Position[]> =>
            log.append(keys.flatMap((key) => [note(key, name), note(key, name, { topic: 'scores' })]))
          await round('first')
          const seen: LogRecord[] = []
          const next = new Map<number, number>()
          const subscription = await log.subscribe({
            topics: ['turns', 'scores'],
            group: 'g',
            from: 'start',
            byPartition: 'turns',
            handle(records) {
              seen.push(...records)
              for (const { topic, partition, offset } of records) if (topic === 'turns') next.set(partition, offset + 1)
            },
          })
          /** What was delivered of the partition since the last call: how often the text of each round. */
          const delivered = (partition: number | null): Record<string, number> => {
            const texts = seen.filter((record) =>
              partition === null
                ? record.topic === 'scores'
                : record.topic === 'turns' && record.partition === partition,
            )
            for (const record of texts) seen.splice(seen.indexOf(record), 1)
            return Object.fromEntries([...Map.groupBy(texts, textOf)].map(([text, of]) => [text, of.length]))
          }
          const inOne = keys.filter((key) => partitionOfKey(key) === one).length
          const inOther = keys.filter((key) => partitionOfKey(key) === other).length
          await subscription.caughtUp()
          assert.deepEqual([delivered(null), seen.length], [{ first: 40 }, 0], 'nothing was taken')
          const from = (partition: number) => () => next.get(partition) ?? 0
          await subscription.take(one, from(one))
          assert.deepEqual([delivered(one), seen.length], [{ first: inOne }, 0])
          await round('second')
          await subscription.take(other, from(other))
          await subscription.caughtUp()
          assert.deepEqual(delivered(one), { second: inOne }, 'who is taken later holds nobody up, and repeats nothing')
          assert.deepEqual(delivered(other), { first: inOther, second: inOther })
          assert.deepEqual([delivered(null), seen.length], [{ second: 40 }, 0])
          subscription.release(one)
          await round('third')
          await subscription.caughtUp()
          assert.deepEqual([delivered(one), delivered(other)], [{}, { third: inOther }])
          await round('fourth')
          const released = subscription.take(one, from(one))
          subscription.release(one)
          await released
          await subscription.take(one, from(one))
          assert.deepEqual([delivered(one), delivered(other)], [{ third: inOne, fourth: inOne }, { fourth: inOther }])
          await subscription.stop()
          await assert.rejects(
            subscription.take(other, () => 0),
            (error) => error instanceof InstarError && error.code === 'log_unavailable',
          )
        },
      )

      feature('reports caughtUp after all earlier records are handled', async ({ log }) => {
        await log.append([note('k', 'first')])
        const gate = Promise.withResolvers<void>()
        const entered = Promise.withResolvers<void>()
        const handled: string[] = []
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'start',
          handle: async (records) => {
            entered.resolve()
            await gate.promise
            handled.push(...records.map(textOf))
          },
        })
        await entered.promise
        await log.append([note('k', 'second')])
        let caughtUp = false
        const waiting = subscription.caughtUp().then(() => {
          caughtUp = true
        })
        await log.append([note('j', 'third')])
        assert.equal(caughtUp, false)
        gate.resolve()
        await waiting
        assert.deepEqual(handled.slice(0, 2), ['first', 'second'])
        await subscription.stop()
      })

      feature('stops at the record whose handler throws, with its error', async ({ log }) => {
        await log.append(range(9).map((i) => note('k', String(i))))
        const handled: string[] = []
        const broken = new Error('handler')
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'start',
          maxBatch: 3,
          handle: (records) => {
            if (records.some((record) => textOf(record) === '4')) throw broken
            handled.push(...records.map(textOf))
          },
        })
        const failed = assert.rejects(subscription.done, broken)
        await assert.rejects(subscription.caughtUp(), broken)
        await failed
        await log.append([note('k', 'later')])
        await assert.rejects(subscription.caughtUp(), broken)
        assert.deepEqual(handled, ['0', '1', '2'])
        await subscription.stop()
      })

      feature('lets a running handler finish on stop and calls no other', async ({ log }) => {
        await log.append(range(6).map((i) => note('k', String(i))))
        const gate = Promise.withResolvers<void>()
        const entered = Promise.withResolvers<void>()
        let calls = 0
        let finished = false
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'start',
          maxBatch: 2,
          handle: async () => {
            calls++
            entered.resolve()
            await gate.promise
            finished = true
          },
        })
        await entered.promise
        const stopping = subscription.stop()
        gate.resolve()
        await stopping
        assert.equal(finished, true)
        assert.equal(calls, 1)
        await subscription.done
      })

      feature('is not slowed by a slow reader and buffers nothing for it', async ({ log, elsewhere }) => {
        const gate = Promise.withResolvers<void>()
        const entered = Promise.withResolvers<void>()
        let handled = 0
        let largest = 0
        await log.append([note('k', 'first')])
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'slow',
          from: 'start',
          maxBatch: 20,
          handle: async (records) => {
            entered.resolve()
            await gate.promise
            handled += records.length
            largest = Math.max(largest, records.length)
          },
        })
        await entered.promise
        const large = range(8).map((caller) => note(`k${caller}`, 'x'.repeat(64 << 10)))
        const before = heldBytes()
        await Promise.all(
          large.map(async (record) => {
            for (const _ of range(128)) await log.append([record])
          }),
        )
        const kept = heldBytes() - before
        const handledMeanwhile = handled
        gate.resolve()
        await subscription.caughtUp()
        assert.equal(handledMeanwhile, 0)
        assert.equal(handled, 8 * 128 + 1)
        assert.ok(largest <= 20)
        if (elsewhere) assert.ok(kept < 12 << 20, `${kept} bytes were kept for a reader that is 64 MiB behind`)
        await subscription.stop()
      })
    })

    describe('sharing work', () => {
      feature(
        'gives all partitions to the only member of a group, and none after it leaves',
        async ({ log }) => {
          const one = await everything(log, 'workers')
          const other = await everything(log, 'others')
          await one.leave()
          assert.deepEqual(
            range(5).map((partition) => one.owns(partition)),
            range(5).map(() => false),
          )
          assert.deepEqual(
            range(5).map((partition) => other.owns(partition)),
            range(5).map(() => true),
          )
          await one.leave()
          await everything(log, 'workers')
        },
        { partitions: { turns: 5 } },
      )

      feature('keeps the commits of a group of the same name', async ({ log }) => {
        await log.append(range(4).map((i) => note('k', String(i))))
        await everything(log, 'g')
        const first = await log.subscribe({ topics: ['turns'], group: 'g', from: 'committed', handle: () => {} })
        await first.caughtUp()
        const { turns } = await log.ends(['turns'])
        await first.commit(
          range(log.partitions('turns')).map((partition) => ({
            topic: 'turns',
            partition,
            offset: turns![partition]!,
          })),
        )
        await first.stop()
        const again = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'committed',
          handle: () => assert.fail('it was committed'),
        })
        await again.caughtUp()
      })
    })

    describe('opening', () => {
      feature(
        'refuses another number of partitions',
        async (opened) => {
          assert.equal(opened.log.partitions('turns'), 5)
          await opened.log.append([note('k', 'x')])
          await opened.log.close()
          await assert.rejects(
            opened.reopen({ partitions: { turns: 6 } }),
            (error) =>
              error instanceof InstarError && error.code === 'partition_count_changed' && error.details['stored'] === 5,
          )
          const log = await opened.reopen({ partitions: { turns: 5 } })
          assert.equal((await all(log.read('turns'))).length, 1)
        },
        { partitions: { turns: 5 } },
      )

      feature('lets a running handler append and commit while it closes', async (opened) => {
        const { log } = opened
        await log.append([note('k', 'task')])
        const gate = Promise.withResolvers<void>()
        const entered = Promise.withResolvers<void>()
        const subscription = await log.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'committed',
          handle: async ([task]) => {
            entered.resolve()
            await gate.promise
            await log.append([note('k', 'result', { topic: 'scores' })])
            await subscription.commit([{ ...positionOf(task!), offset: task!.offset + 1 }])
          },
        })
        await entered.promise
        const closing = log.close()
        gate.resolve()
        await Promise.all([closing, subscription.done])
        const again = await opened.reopen()
        assert.deepEqual((await all(again.read('scores'))).map(textOf), ['result'])
        const repeated = await again.subscribe({
          topics: ['turns'],
          group: 'g',
          from: 'committed',
          handle: () => assert.fail('it was committed'),
        })
        await repeated.caughtUp()
      })

      feature('writes queued records before it closes, and refuses calls afterwards', async (opened) => {
        const pending = range(50).map((i) => opened.log.append([note('k', String(i))]))
        await opened.log.close()
        await Promise.all(pending)
        await assert.rejects(
          opened.log.append([note('k', 'late')]),
          (error) => error instanceof InstarError && error.code === 'log_unavailable',
        )
        const log = await opened.reopen()
        assert.deepEqual((await all(log.read('turns'))).map(textOf), range(50).map(String))
      })
    })

    if (cuts) describe('cutting', () => cuttingFeatures(feature))

    if (kills > 0) {
      describe('with other processes', () => {
        test('another process reads the log while it is written', { timeout: 30_000 }, () => readingElsewhere(open))
        test(
          `every acknowledged record is there in order after kill -9 of the writer, ${kills} times`,
          { timeout: 120_000 },
          () => killingTheWriter(open, kills),
        )
      })
    }
  })
}

/** A share of `turns` that grows to all of it. */
const everything = async (log: EventLog, group: string): Promise<PartitionAssignment> => {
  let changed = Promise.withResolvers<void>()
  const share = await log.joinGroup(group, 'turns', () => {
    changed.resolve()
    changed = Promise.withResolvers()
  })
  while (!range(log.partitions('turns')).every((partition) => share.owns(partition))) await changed.promise
  return share
}

const positionOf = ({ topic, partition, offset }: LogRecord): Position => ({ topic, partition, offset })

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const heldBytes = (): number => {
  // Buffers are freed beside the program after a collection, which the next one waits for.
  collect()
  collect()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return arrayBuffers + heapUsed
}
