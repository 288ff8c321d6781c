/** Faults of a broker or of the network to it: no acknowledged record is lost, duplicated or reordered. */
import { InstarError } from '@instar/events/errors'
import { openKafkaLog, setupKafka, type KafkaLog } from '@instar/log/kafka/index'
import type { LogRecord } from '@instar/log'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { all, NOTE, note, range, SCHEMAS, textOf } from '../kit/event-log/harness.ts'
import type { KafkaCluster } from '../kit/stack/kafka.ts'
import { compare, startLoad } from '../kit/stack/load.ts'
import { startProxied, type Proxied } from '../kit/stack/proxied.ts'
import { API, type Proxy } from '../kit/stack/proxy.ts'

describe('one broker', () => {
  let stack: Proxied
  let proxy: Proxy
  let kafka: KafkaCluster
  let count = 0

  before(async () => {
    stack = await startProxied()
    ;({ proxy, kafka } = stack)
  })
  after(() => stack.end())

  const feature = (
    title: string,
    body: (log: KafkaLog, direct: KafkaLog, say: (line: string) => void) => Promise<void>,
  ): void => {
    test(title, { timeout: 240_000 }, async (t) => {
      const prefix = `f${count++}.`
      await setupKafka({ brokers: kafka.brokers, prefix })
      const options = {
        prefix,
        clientId: 'faults',
        schemas: SCHEMAS,
        registry: new Map([[NOTE, 1]]),
        requestTimeout: 1500,
      }
      const log = await openKafkaLog({ ...options, brokers: [`127.0.0.1:${proxy.port}`] })
      const direct = await openKafkaLog({ ...options, brokers: kafka.brokers })
      try {
        await body(log, direct, (line) => t.diagnostic(line))
      } finally {
        proxy.request = proxy.response = () => 'pass'
        await Promise.all([log.close(), direct.close()])
      }
    })
  }

  /** The n-th, 2n-th … message of a kind, `times` in all. */
  const every = (api: number, n: number, fate: 'drop' | { delay: number }, times: number) => {
    let seen = 0
    let done = 0
    return {
      fate: (of: number) => (of === api && ++seen % n === 0 && done < times ? (done++, fate) : ('pass' as const)),
      done: () => done,
    }
  }

  for (const [what, side, fate] of [
    ['answers to produce requests are lost', 'response', 'drop'],
    ['answers to produce requests come after the time limit', 'response', { delay: 2500 }],
    ['produce requests are lost', 'request', 'drop'],
  ] as const) {
    feature(`${what}: each record is there once, in order`, async (log, direct, say) => {
      const fault = every(API.produce, 4, fate, 3)
      proxy[side] = fault.fate
      const load = startLoad(log, 40)
      await load.more(2000)
      const acknowledged = await load.stop()
      assert.equal(fault.done(), 3)
      const found = compare(acknowledged, await all(direct.read('turns')))
      say(JSON.stringify({ ...found, longest: load.longest() }))
      assert.deepEqual(found, {
        acknowledged: found.acknowledged,
        stored: found.acknowledged,
        lost: 0,
        doubled: 0,
        disordered: 0,
      })
    })
  }

  feature('a producer whose request for an id gets no answer asks again', async (log, direct) => {
    const fault = every(API.initProducerId, 1, 'drop', 2)
    proxy.response = fault.fate
    await Promise.all(range(20).map((i) => log.append([note('k', `${i}`)])))
    assert.equal(fault.done(), 2)
    assert.equal((await all(direct.read('turns'))).length, 20)
  })

  feature(
    'readers whose fetch and offset requests get no answer read each record once and reach the end',
    async (log, direct) => {
      await direct.append(range(300).map((i) => note(`k${i % 9}`, `${i}`)))
      const fetches = every(API.fetch, 2, 'drop', 3)
      const offsets = every(API.listOffsets, 2, 'drop', 2)
      proxy.response = (api) => (api === API.fetch ? fetches.fate(api) : offsets.fate(api))
      const seen: LogRecord[] = []
      const subscription = await log.subscribe({
        topics: ['turns'],
        group: 'g',
        from: 'start',
        maxBatch: 7,
        handle: (records) => void seen.push(...records),
      })
      await subscription.caughtUp()
      await direct.append(range(300).map((i) => note(`k${i % 9}`, `${300 + i}`)))
      await subscription.caughtUp()
      let appended = 600
      // A fetch that waits for records ends with one.
      for (; fetches.done() < 3; appended += 1) {
        await direct.append([note(`k${appended % 9}`, `${appended}`)])
        await subscription.caughtUp()
      }
      assert.equal(seen.length, appended)
      assert.equal(new Set(seen.map(({ partition, offset }) => `${partition}@${offset}`)).size, appended)
      assert.equal((await all(log.read('turns'))).length, appended)
      assert.equal(offsets.done(), 2)
      await subscription.stop()
    },
  )

  feature(
    'a broker that is killed and restarted under load causes no loss, duplicate or reordering for writers and followers',
    async (_, direct, say) => {
      const followed: LogRecord[] = []
      const subscription = await direct.subscribe({
        topics: ['turns'],
        group: 'g',
        from: 'start',
        handle: (records) => void followed.push(...records),
      })
      const load = startLoad(direct, 48)
      const rounds = Number(process.env['INSTAR_ROUNDS'] ?? 5)
      for (const round of range(rounds)) {
        await load.more(150 + 70 * round)
        await kafka.nodes[0]!.kill()
        await kafka.nodes[0]!.start()
      }
      await load.more(200)
      const acknowledged = await load.stop()
      await subscription.caughtUp()
      const found = compare(acknowledged, await all(direct.read('turns')))
      say(`${rounds} kills: ${JSON.stringify({ ...found, longest: load.longest() })}`)
      assert.deepEqual(found, {
        acknowledged: found.acknowledged,
        stored: found.acknowledged,
        lost: 0,
        doubled: 0,
        disordered: 0,
      })
      assert.deepEqual(compare(acknowledged, followed), found)
      await subscription.stop()
    },
  )

  feature(
    'while the broker is down calls wait, a full queue refuses calls, and accepted calls are written afterwards',
    async (_, direct, say) => {
      const small = await openKafkaLog({
        brokers: kafka.brokers,
        prefix: `f${count - 1}.`,
        clientId: 'faults',
        schemas: SCHEMAS,
        registry: new Map([[NOTE, 1]]),
        queue: { records: 40 },
      })
      await small.append([note('k', 'before')])
      await kafka.nodes[0]!.kill()
      const outcomes = range(60).map((i) =>
        small.append([note('k', String(i))]).then(
          () => i,
          (cause: unknown) => cause,
        ),
      )
      const refusals = (await Promise.all(outcomes.slice(40))).map((cause) =>
        cause instanceof InstarError ? cause.code : cause,
      )
      assert.deepEqual(
        refusals,
        range(20).map(() => 'log_full'),
      )
      await kafka.nodes[0]!.start()
      assert.deepEqual(await Promise.all(outcomes.slice(0, 40)), range(40))
      assert.deepEqual((await all(direct.read('turns'))).map(textOf), ['before', ...range(40).map(String)])
      say('40 of 60 calls were taken while the broker was away')
      await small.close()
    },
  )

  feature(
    'closing a log while the broker is down refuses waiting calls in time and answers open queries',
    async (_, direct) => {
      const impatient = await openKafkaLog({
        brokers: kafka.brokers,
        prefix: `f${count - 1}.`,
        clientId: 'faults',
        schemas: SCHEMAS,
        registry: new Map([[NOTE, 1]]),
        retryMs: 1000,
      })
      await kafka.nodes[0]!.kill()
      const refused = (error: unknown): boolean => error instanceof InstarError && error.code === 'log_unavailable'
      const waiting = assert.rejects(impatient.append([note('k', 'lost')]), refused)
      await assert.rejects(impatient.ends(['turns']), refused)
      await assert.rejects(all(impatient.read('turns')), refused)
      await Promise.all([impatient.close(), waiting])
      await assert.rejects(
        openKafkaLog({
          brokers: kafka.brokers,
          prefix: `f${count - 1}.`,
          clientId: 'faults',
          schemas: SCHEMAS,
          registry: new Map([[NOTE, 1]]),
          retryMs: 500,
        }),
        refused,
      )
      await kafka.nodes[0]!.start()
      assert.deepEqual(await all(direct.read('turns')), [])
    },
  )

  feature(
    'a broker that is stopped for longer than the time limit causes no loss, duplicate or reordering',
    async (_, direct, say) => {
      const load = startLoad(direct, 16)
      for (const _round of range(2)) {
        await load.more(100)
        kafka.nodes[0]!.signal('SIGSTOP')
        const waited = Promise.withResolvers<void>()
        setTimeout(waited.resolve, 4000)
        await waited.promise
        kafka.nodes[0]!.signal('SIGCONT')
      }
      await load.more(100)
      const acknowledged = await load.stop()
      const found = compare(acknowledged, await all(direct.read('turns')))
      say(JSON.stringify({ ...found, longest: load.longest() }))
      assert.deepEqual(found, {
        acknowledged: found.acknowledged,
        stored: found.acknowledged,
        lost: 0,
        doubled: 0,
        disordered: 0,
      })
    },
  )
})
