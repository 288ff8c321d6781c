/**
 * Three brokers with two in-sync replicas: the broker that leads most partitions is killed repeatedly under the load of
 * the services.
 */
import { equal } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import { integer, seeded } from '../../models/tiny/recipe/random.ts'
import { checkAll, checkAnswered, checkNoCrash, figuresOf } from './world/checks.ts'
import { History } from './world/history.ts'
import { newLedger, startPeople } from './world/people.ts'
import { startWorld, type World } from './world/world.ts'

const SHORT = process.env['INSTAR_SHORT'] === '1'
const ROUNDS = Number(process.env['INSTAR_ROUNDS'] ?? (SHORT ? 2 : 12))
const IN_STEP_MS = 120_000
const TOPICS = ['turns', 'scores', 'updates', 'weights', 'blobs']

describe('three brokers', { timeout: SHORT ? 240_000 : 1_800_000 }, () => {
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const ledger = newLedger()
  const history = new History()
  let world: World
  let admin: Admin
  before(async () => {
    world = await startWorld({ nodes: 3 })
    await history.follow(world.log)
    admin = new Kafka({ brokers: world.kafka.brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
  })
  after(async () => {
    await admin?.disconnect()
    await world?.end()
  })

  const partitions = async () =>
    (await admin.fetchTopicMetadata({ topics: TOPICS })).topics.flatMap((topic) => topic.partitions)
  const untilInStep = async (): Promise<void> => {
    const inStep = async (): Promise<boolean> =>
      (await partitions()).every(({ isr, leader }) => isr.length === 3 && leader > 0)
    for (const until = Date.now() + IN_STEP_MS; ; await pause(100)) {
      // A starting broker does not answer at once.
      const answer = await inStep().catch((error: unknown) => error)
      if (answer === true) return
      if (Date.now() > until) throw new Error('the brokers are not in step', { cause: answer })
    }
  }

  test(`the pipeline survives kill -9 of ${ROUNDS} partition leaders`, async (t) => {
    await untilInStep()
    const people = startPeople({ gateways: world.of('gateway'), sessions: 12, random, ledger, breathMs: 200 })
    for (let n = 1; n <= ROUNDS; n += 1) {
      await people.more(integer(random, 10, 40))
      const from = ledger.received.length
      const leads = Map.groupBy(await partitions(), ({ leader }) => leader)
      const [most] = [...leads].toSorted(([, a], [, b]) => b.length - a.length)[0]!
      const node = world.kafka.nodes.find(({ id }) => id === most)!
      await node.kill()
      await people.more(20)
      await node.start()
      await untilInStep()
      await history.caughtUp()
      checkAnswered({ ...ledger, received: [...ledger.received] }, history)
      t.diagnostic(
        `node ${most}, which led ${leads.get(most)!.length} partitions; the longest wait of a client ${Math.max(...ledger.received.slice(from).map(({ waitedMs }) => waitedMs))} ms; ${history.summary()}`,
      )
    }
    await people.leave()
    await world.ready()
    await checkAll(world, history, ledger)
    checkNoCrash(world)
    t.diagnostic(JSON.stringify({ seed: process.env['INSTAR_SEED'], ...figuresOf(ledger, history) }))
    equal(history.conflicts.length, 0)
  })
})
