/**
 * The pipeline as separate processes without faults: two gateways, two scorers, 2,000 turns of 50 concurrent sessions.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { checkAll, checkNoCrash, figuresOf } from './world/checks.ts'
import { History } from './world/history.ts'
import { newLedger, startPeople } from './world/people.ts'
import { startWorld, type World } from './world/world.ts'

const SHORT = process.env['INSTAR_SHORT'] === '1'
const TURNS = SHORT ? 240 : 2000
const SESSIONS = SHORT ? 16 : 50

describe('flow', { timeout: SHORT ? 150_000 : 900_000 }, () => {
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const ledger = newLedger()
  const history = new History()
  let world: World
  before(async () => {
    world = await startWorld()
    await history.follow(world.log)
  })
  after(() => world?.end())

  test(`${TURNS} turns of ${SESSIONS} concurrent sessions, unlabelled and spread over two gateways, are all captured and joined`, async (t) => {
    const begun = performance.now()
    await startPeople({ gateways: world.of('gateway'), sessions: SESSIONS, random, ledger, limit: TURNS }).leave()
    const talked = (performance.now() - begun) / 1000
    await checkAll(world, history, ledger)
    const settled = (performance.now() - begun) / 1000
    t.diagnostic(
      `${JSON.stringify(figuresOf(ledger, history))}; talked for ${talked.toFixed(1)} s (${(TURNS / talked).toFixed(0)} turns/s), settled after ${settled.toFixed(1)} s`,
    )
    equal(ledger.received.length, TURNS)
    equal(history.turns.size, TURNS, 'a turn that nobody asked for')
    deepEqual(history.repeats, {})
    deepEqual([...ledger.refusals], [])
    for (const { name } of world.of('gateway'))
      ok(ledger.received.filter(({ gateway }) => gateway === name).length > TURNS / 4)
    ok(history.versions.length > 1, history.summary())
    checkNoCrash(world)
  })

  test('SIGTERM ends every service with exit code 0', async () => {
    const statuses = await world.stopServices()
    deepEqual(statuses, Object.fromEntries(world.services.map(({ name }) => [name, 0])))
  })
})
