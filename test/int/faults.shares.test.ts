/** The division of work when brokers or the network fail: shares are kept, and a new division is agreed on. */
import { openKafkaLog, setupKafka, type KafkaLog } from '@instar/log/kafka/index'
import type { PartitionAssignment } from '@instar/log'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NOTE, note, range, SCHEMAS } from '../kit/event-log/harness.ts'
import { killAll } from '../kit/stack/guarded.ts'
import { startKafka, type KafkaCluster } from '../kit/stack/kafka.ts'
import { startProxied, type Proxied } from '../kit/stack/proxied.ts'
import { API, type Proxy } from '../kit/stack/proxy.ts'
import { temporaryFolder } from '../kit/stack.ts'

const SESSION = 1500
/** Of `turns` on one broker. */
const PARTITIONS = 8

type Worker = { log: KafkaLog; share: PartitionAssignment; owned(): number[] }

class Workers {
  readonly #of = new Set<Worker>()
  readonly said: string[] = []
  #changed = Promise.withResolvers<void>()

  async join(brokers: string[], prefix: string): Promise<Worker> {
    const log = await openKafkaLog({
      brokers,
      prefix,
      session: SESSION,
      clientId: 'worker',
      schemas: SCHEMAS,
      registry: new Map([[NOTE, 1]]),
      logLine: (line) => this.#wake(line),
    })
    const share = await log.joinGroup('workers', 'turns', () => this.#wake('changed'))
    const all = range(log.partitions('turns'))
    const worker = { log, share, owned: () => all.filter((partition) => share.owns(partition)) }
    this.#of.add(worker)
    return worker
  }

  async until(holds: () => boolean): Promise<number> {
    const begin = performance.now()
    while (!holds()) await this.#changed.promise
    return Math.round(performance.now() - begin)
  }

  settled(workers: readonly Worker[]): Promise<number> {
    return this.until(() => this.#even(workers))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#of].map(({ log }) => log.close()))
  }

  #even(workers: readonly Worker[]): boolean {
    const shares = workers.map((worker) => worker.owned())
    const sizes = shares.map(({ length }) => length)
    const partitions = workers[0]!.log.partitions('turns')
    return (
      new Set(shares.flat()).size === partitions &&
      shares.flat().length === partitions &&
      Math.max(...sizes) - Math.min(...sizes) <= 1
    )
  }

  #wake(line: string): void {
    this.said.push(line)
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}

const shares = (workers: readonly Worker[]): number[][] => workers.map((worker) => worker.owned())

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
    body: (workers: Workers, join: (way?: 'direct') => Promise<Worker>, say: (line: string) => void) => Promise<void>,
  ): void => {
    test(title, { timeout: 120_000 }, async (t) => {
      const prefix = `g${count++}.`
      const workers = new Workers()
      await setupKafka({ brokers: kafka.brokers, prefix })
      try {
        await body(
          workers,
          (way) => workers.join(way === 'direct' ? kafka.brokers : [`127.0.0.1:${proxy.port}`], prefix),
          (line) => t.diagnostic(line),
        )
      } finally {
        proxy.request = proxy.response = () => 'pass'
        await workers.close()
      }
    })
  }

  feature(
    'during a restart of the broker members keep their shares, and afterwards each partition has one owner',
    async (workers, join, say) => {
      const three = [await join('direct'), await join('direct'), await join('direct')]
      await workers.settled(three)
      for (const round of range(2)) {
        const held = shares(three)
        workers.said.length = 0
        await kafka.nodes[0]!.kill()
        await workers.until(
          () => workers.said.filter((line) => line.includes('is unreachable')).length === three.length,
        )
        assert.deepEqual(shares(three), held)
        await kafka.nodes[0]!.start()
        say(
          `round ${round}: agreed ${await workers.until(() => workers.said.filter((line) => line.includes('reachable again')).length === three.length)} ms after it answers`,
        )
        await workers.settled(three)
        // A new group may divide partitions differently, but each partition has one owner.
        assert.deepEqual(
          shares(three)
            .flat()
            .toSorted((a, b) => a - b),
          held.flat().toSorted((a, b) => a - b),
        )
      }
    },
  )

  feature('lost responses of the group cost no member its share', async (workers, join) => {
    const two = [await join(), await join('direct')]
    await workers.settled(two)
    const held = shares(two)
    let beats = 0
    let lost = 0
    const enough = Promise.withResolvers<void>()
    proxy.response = (api) => {
      if (api !== API.heartbeat) return 'pass'
      if (lost === 3) enough.resolve()
      return ++beats % 2 === 0 ? (lost++, 'drop') : 'pass'
    }
    workers.said.length = 0
    await enough.promise
    assert.deepEqual(shares(two), held)
    assert.deepEqual(
      workers.said.filter((line) => line === 'changed'),
      [],
    )
  })

  feature(
    'without the group, but with its topics, members process all partitions after six session times until the group answers',
    async (workers, join, say) => {
      const cut = await join()
      const other = await join('direct')
      await workers.settled([cut, other])
      const about: number[] = [API.findCoordinator, API.joinGroup, API.heartbeat, API.syncGroup]
      proxy.request = (api) => (about.includes(api) ? 'drop' : 'pass')
      const held = cut.owned()
      const begin = performance.now()
      await workers.until(() => other.owned().length === PARTITIONS)
      assert.deepEqual(cut.owned(), held, 'for some time it keeps what it had')
      await workers.until(() => cut.owned().length === PARTITIONS)
      const took = performance.now() - begin
      say(`everything after ${Math.round(took)} ms (session ${SESSION} ms)`)
      assert.ok(took >= 6 * SESSION, `${took} ms`)
      await cut.log.append([note('k', 'still written')])
      proxy.request = () => 'pass'
      say(`divided again after ${await workers.settled([cut, other])} ms`)
    },
  )

  feature('leaving waits neither for an unreachable broker nor for a rebalance', async (workers, join) => {
    const one = await join('direct')
    await workers.settled([one])
    await kafka.nodes[0]!.kill()
    const begin = performance.now()
    await one.share.leave()
    assert.ok(performance.now() - begin < 2 * SESSION)
    assert.deepEqual(one.owned(), [])
    await kafka.nodes[0]!.start()

    const first = await join('direct')
    await workers.until(() => first.owned().length === PARTITIONS)
    proxy.response = (api) => (api === API.joinGroup ? 'drop' : 'pass')
    const late = await join()
    const from = performance.now()
    await late.share.leave()
    assert.ok(performance.now() - from < 2 * SESSION)
  })
})

test(
  'three brokers: each is killed in turn, also the coordinator of the group, and the work stays divided',
  { timeout: 240_000 },
  async (t) => {
    const folder = await temporaryFolder()
    const workers = new Workers()
    try {
      const kafka = await startKafka({ folder: join(folder.path, 'kafka'), nodes: 3 })
      await setupKafka({ brokers: kafka.brokers, replication: 3 })
      const three = [
        await workers.join(kafka.brokers, ''),
        await workers.join(kafka.brokers, ''),
        await workers.join(kafka.brokers, ''),
      ]
      await workers.settled(three)
      let failovers = 0
      for (const node of kafka.nodes) {
        workers.said.length = 0
        await node.kill()
        // A new member can only be admitted by a working coordinator.
        const newcomer = await workers.join(kafka.brokers, '')
        const took = await workers.settled([...three, newcomer])
        const missed = workers.said.some((line) => line.startsWith('group') && line.includes('is unreachable'))
        if (missed) failovers++
        t.diagnostic(
          `broker ${node.id} killed${missed ? ', the coordinator' : ''}: four share the work after ${took} ms`,
        )
        await newcomer.log.close()
        await workers.settled(three)
        await node.start()
      }
      assert.ok(failovers >= 1)
      await workers.close()
    } finally {
      await killAll()
      await folder.remove()
    }
  },
)
