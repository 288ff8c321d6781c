/**
 * Faults of every kind on one broker, one after another on one history, during conversations. After each fault: no
 * answered turn is lost, none is duplicated, versions form one chain, and PostgreSQL equals the log.
 */
import { ok } from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { integer, pick, seeded } from '../../models/tiny/recipe/random.ts'
import { API, type Fate } from '../kit/stack/proxy.ts'
import { checkAll, checkNoCrash, figuresOf } from './world/checks.ts'
import { History } from './world/history.ts'
import { newLedger, startPeople, type People } from './world/people.ts'
import type { Kind, Service } from './world/service.ts'
import { startWorld, type World } from './world/world.ts'

const SHORT = process.env['INSTAR_SHORT'] === '1'
/** Kills of each kind of service. */
const KILLS = Number(process.env['INSTAR_ROUNDS'] ?? 5)
const KINDS: readonly Kind[] = ['gateway', 'scorer', 'trainer', 'publisher', 'projections']
const SESSIONS = 4
/** The adapter's default is 10 s: group members without a heartbeat for that long are removed. */
const LONGER_THAN_A_SESSION_MS = 13_000
/** Longer than a group session and the attempts to join another one. */
const ALONE_MS = 120_000
/** Number of times that the service could not reach its group. */
const timesAlone = (one: Service): number => one.said(Infinity).split('working on every partition').length
/** The requests of the group protocol: join, heartbeat, leave, sync. */
const GROUP: readonly number[] = [11, 12, 13, 14]

describe('one broker', { timeout: SHORT ? 400_000 : 3_000_000 }, () => {
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const ledger = newLedger()
  const history = new History()
  let world: World
  before(async () => {
    world = await startWorld({ proxied: true })
    await history.follow(world.log)
  })
  after(() => world?.end())

  /** After a failed check the following rounds are skipped. */
  let broken = false
  /** Conversations run before, during and after the fault; then all invariants are checked. */
  const round = async (t: TestContext, fault: (people: People) => Promise<unknown>, turns = 20): Promise<void> => {
    if (broken) throw new Error('a round before it failed')
    broken = true
    const from = ledger.received.length
    const refused = new Map(ledger.refusals)
    const people = startPeople({ gateways: world.of('gateway'), sessions: SESSIONS, random, ledger, breathMs: 1000 })
    await people.more(integer(random, 4, 24))
    await pause(integer(random, 0, 300))
    const begun = performance.now()
    await fault(people)
    await people.more(turns)
    await people.leave()
    await world.ready()
    await checkAll(world, history, ledger)
    broken = false
    const waited = ledger.received.slice(from).map(({ waitedMs }) => waitedMs)
    t.diagnostic(
      `settled ${((performance.now() - begun) / 1000).toFixed(1)} s after the fault; ${waited.length} turns, the longest wait of a client ${Math.max(...waited)} ms, failed tries ${JSON.stringify(Object.fromEntries([...ledger.refusals].map(([why, times]) => [why, times - (refused.get(why) ?? 0)]).filter(([, times]) => times !== 0)))}; ${history.summary()}`,
    )
  }

  /** With probability 1/4 its files are deleted as well, since snapshots are caches. */
  const killed = (service: Service): Promise<void> => service.kill(integer(random, 0, 3) === 0)
  const sealed = (): boolean => history.batches.some(({ outcome }) => outcome === null)
  const computed = (): boolean =>
    history.batches.some(({ outcome, verdict }) => outcome?.event.type === 'UpdateComputed' && verdict === null)

  /** At any moment; with probability 2/3 while it has work. */
  const killOf = async (kind: Kind): Promise<void> => {
    const working = integer(random, 0, 2) > 0
    if (kind === 'trainer' && working) await history.until('a sealed batch', sealed)
    if (kind === 'publisher' && working) await history.until('an update', computed)
    await pause(integer(random, 0, 400))
    await killed(pick(random, world.of(kind)))
  }

  if (SHORT) {
    test('the pipeline survives kill -9 of one service of each kind', async (t) => {
      await round(t, async (people) => {
        for (const kind of KINDS) {
          await killOf(kind)
          await people.more(4)
        }
      })
    })
  }
  for (const n of Array.from({ length: SHORT ? 0 : KILLS }, (_, i) => i + 1)) {
    for (const kind of KINDS)
      test(`the pipeline survives kill -9 of a ${kind}, round ${n}`, (t) => round(t, () => killOf(kind)))
  }

  test('the pipeline survives kill -9 of all services at once', async (t) => {
    await round(t, () => Promise.all(world.services.map(killed)))
  })

  test('the pipeline survives a kill and restart of the broker', async (t) => {
    const [node] = world.kafka.nodes
    for (let n = 0; n < (SHORT ? 1 : 3); n += 1) {
      await round(t, async (people) => {
        await node!.kill()
        await pause(integer(random, 0, 3000))
        await node!.start()
        await people.more(10)
      })
    }
  })

  const databaseAway = async (people: People): Promise<void> => {
    await world.database.stop()
    await people.more(20)
    await world.database.start()
  }
  const registryAway = async (people: People): Promise<void> => {
    await world.registry.kill()
    await people.more(10)
    await killed(pick(random, world.of('scorer')))
    await killed(pick(random, world.of('gateway')))
    await people.more(10)
    await world.registry.start()
  }
  if (SHORT) {
    test('the pipeline survives kills and restarts of PostgreSQL and then of the registry', async (t) => {
      await round(
        t,
        async (people) => {
          await databaseAway(people)
          await registryAway(people)
        },
        8,
      )
    })
  } else {
    test('the pipeline survives a kill and restart of PostgreSQL', (t) => round(t, databaseAway))
    test('a scorer and a gateway that are killed while the registry is down recover', (t) => round(t, registryAway))
  }

  for (const kind of SHORT ? [] : KINDS) {
    test(`a ${kind} that is stopped for longer than a group session continues`, async (t) => {
      await round(t, async () => {
        if (kind === 'trainer') await history.until('a sealed batch', sealed)
        const service = pick(random, world.of(kind))
        service.pause()
        await pause(LONGER_THAN_A_SESSION_MS)
        service.resume()
      })
    })
  }

  /** Every n-th response (or request) of these kinds, `times` times. */
  const some = (apis: readonly number[], n: number, times: number, fate: Fate) => {
    let seen = 0
    let done = 0
    return {
      done: () => done,
      fate: (api: number): Fate =>
        apis.includes(api) && ++seen % n === 0 && done < times ? ((done += 1), fate) : 'pass',
    }
  }

  for (const [what, side, fate, times] of [
    ['answers of the broker are lost', 'response', 'drop', 4],
    ['answers of the broker come late', 'response', { delay: 1500 }, 12],
    ['requests to the broker are lost', 'request', 'drop', 4],
  ] as const) {
    if (!SHORT)
      test(what, async (t) => {
        const faults = [
          some([API.produce], 5, times, fate),
          some([API.fetch, API.listOffsets, API.metadata], 40, times, fate),
        ]
        await round(t, async (people) => {
          world.proxy![side] = (api) => faults.map((one) => one.fate(api)).find((it) => it !== 'pass') ?? 'pass'
          await people.more(60)
          world.proxy![side] = () => 'pass'
        })
        for (const { done } of faults) ok(done() >= Math.min(3, times), `only ${done()} of ${times}`)
      })
  }

  test('a second trainer and a second publisher join during a training step without double work', async (t) => {
    await round(t, async () => {
      await history.until('a sealed batch', sealed)
      await Promise.all([world.add('trainer'), world.add('publisher')])
    })
  })

  test('scorers, trainers and publishers that are stopped during their work for longer than a group session continue', async (t) => {
    await round(t, async () => {
      await history.until('a sealed batch', sealed)
      const first = (['scorer', 'trainer', 'publisher'] as const).map((kind) => world.of(kind)[0]!)
      for (const one of first) one.pause()
      await pause(LONGER_THAN_A_SESSION_MS)
      for (const one of first) one.resume()
    })
  })

  if (!SHORT)
    test('the pipeline survives kill -9 of two trainers and two publishers at once', async (t) => {
      await round(t, async () => {
        await history.until('a sealed batch', sealed)
        await Promise.all([...world.of('trainer'), ...world.of('publisher')].map(killed))
      })
    })

  if (!SHORT)
    test('two trainers, publishers and scorers that cannot reach their group each process all partitions', async (t) => {
      const before = { ...history.late }
      await round(t, async (people) => {
        const rivals = [...world.of('trainer'), ...world.of('publisher'), ...world.of('scorer')]
        const wereAlone = new Map(rivals.map((one) => [one, timesAlone(one)]))
        world.proxy!.request = (api) => (GROUP.includes(api) ? 'drop' : 'pass')
        for (
          const until = Date.now() + ALONE_MS;
          rivals.some((one) => timesAlone(one) === wereAlone.get(one));
          await pause(200)
        ) {
          if (Date.now() > until)
            throw new Error(
              `still in a group: ${rivals
                .filter((one) => timesAlone(one) === wereAlone.get(one))
                .map(({ name }) => name)
                .join(', ')}`,
            )
        }
        await people.more(100)
        world.proxy!.request = () => 'pass'
      })
      const { scores, updates, weights } = history.late
      ok(
        scores > before.scores && updates + weights > before.updates + before.weights,
        `no rivalry: ${JSON.stringify([before, history.late])}`,
      )
    })

  test('no service ended without a kill, and all invariants hold over the whole run', (t) => {
    checkNoCrash(world)
    t.diagnostic(JSON.stringify({ seed: process.env['INSTAR_SEED'], ...figuresOf(ledger, history) }))
  })
})
