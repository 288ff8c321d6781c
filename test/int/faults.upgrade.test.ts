/**
 * An upgrade during conversations: services of this build and of a later one, with newer versions of some records, on
 * one Kafka, registry and PostgreSQL, in both orders.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Topic } from '@instar/events'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { checkAll, checkNoCrash, figuresOf } from '../chaos/world/checks.ts'
import { History } from '../chaos/world/history.ts'
import { newLedger, startPeople, type People } from '../chaos/world/people.ts'
import { startReadiness } from '../chaos/world/readiness.ts'
import { PROGRAMS, type Kind, type Service } from '../chaos/world/service.ts'
import { startWorld, type World } from '../chaos/world/world.ts'
import { ROOT } from '../../tools/tree.ts'
import { laterBuild, type OtherBuild } from '../upgrade/other-build.ts'

const LATER = [
  'TurnCaptured',
  'SessionClosed',
  'TurnScored',
  'BatchSealed',
  'UpdateComputed',
  'VersionPublished',
] as const
const WRITTEN = ['turns', 'scores', 'updates', 'weights'] as const satisfies readonly Topic[]
const KINDS = Object.keys(PROGRAMS) as Kind[]
const NONE = { gateway: 0, scorer: 0, trainer: 0, publisher: 0, projections: 0 }
/** Answered turns before the next step, and the number of concurrent sessions. */
const TURNS = 24
const PEOPLE = 4

/** Records on the log by schema. */
const schemasOn = async (world: World): Promise<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const topic of WRITTEN)
    for await (const records of world.log.read(topic))
      for (const { schema } of records) counts[schema] = (counts[schema] ?? 0) + 1
  return counts
}

type Scene = {
  world: World
  later: OtherBuild
  /** One service of each kind of the build in that folder; polled once they are ready. */
  start(root: string): Promise<Service[]>
  /** Moves the conversations to these gateways without a pause; resolves after `TURNS` further answers. */
  talkTo(...services: readonly Service[][]): Promise<void>
  /** Sends SIGTERM to each; they must exit with code 0. */
  stop(services: readonly Service[]): Promise<void>
  /** The versions of records that only the later build has, with their counts. */
  newer(): Promise<Record<string, number>>
  announce(): Promise<void>
}

const play = async (say: (line: string) => void, work: (scene: Scene) => Promise<void>): Promise<void> => {
  using later = laterBuild(LATER, [])
  const world = await startWorld({ services: NONE, env: { INSTAR_MODEL: join(ROOT, 'models/tiny') } })
  const [history, ledger, readiness] = [new History(), newLedger(), startReadiness()]
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const talking: People[] = []
  try {
    await history.follow(world.log)
    const prepared = JSON.parse((await world.instarOf(later.root, 'setup', '--json')).trim().split('\n').at(-1)!) as {
      upgraded: object
    }
    deepEqual(prepared.upgraded, {}, 'setup of the later build announces nothing on a log that was there')
    const scene: Scene = {
      world,
      later,
      async start(root) {
        const services = await Promise.all(KINDS.map((kind) => world.add(kind, {}, root)))
        readiness.watch(services)
        return services
      },
      async talkTo(...services) {
        const gateways = services.flat().filter(({ kind }) => kind === 'gateway')
        const before = talking.at(-1)
        const people = startPeople({ gateways, sessions: PEOPLE, random, ledger, breathMs: 400, patience: 60_000 })
        talking.push(people)
        await before?.leave()
        await people.more(TURNS)
      },
      async stop(services) {
        await readiness.leave(services)
        deepEqual(
          await Promise.all(services.map((service) => service.stop())),
          services.map(() => 0),
        )
      },
      async newer() {
        const counts = await schemasOn(world)
        const names = LATER.map((name) => `${name}.v${later.versions[name]}`)
        return Object.fromEntries(names.filter((name) => counts[name]).map((name) => [name, counts[name]!]))
      },
      async announce() {
        const said = await world.instarOf(later.root, 'setup', '--upgraded', '--json')
        const { upgraded } = JSON.parse(said.trim().split('\n').at(-1)!) as { upgraded: Record<string, number> }
        deepEqual(upgraded, later.versions)
      },
    }
    await work(scene)
    await talking.at(-1)?.leave()
    await checkAll(world, history, ledger)
    say(`${JSON.stringify(figuresOf(ledger, history))} ${JSON.stringify(await schemasOn(world))}`)
    deepEqual([...ledger.refusals], [], 'a request failed')
    equal(history.turns.size, ledger.received.length, 'a turn that nobody asked for')
    deepEqual(readiness.unready, [])
    ok([...readiness.asked.values()].every((times) => times > 10))
    ok(history.versions.length > 1, history.summary())
    checkNoCrash(world)
  } finally {
    await Promise.allSettled([readiness.end(), ...talking.map((people) => people.leave())])
    await world.end()
  }
}

describe('two builds on one log', { timeout: 480_000 }, () => {
  test('a later build starts beside the older one, takes over and is announced without a failed request or a lost record', (t) =>
    play(
      (line) => t.diagnostic(line),
      async ({ later, start, talkTo, stop, newer, announce }) => {
        const old = await start(ROOT)
        await talkTo(old)
        const fresh = await start(later.root)
        await talkTo(old, fresh)
        deepEqual(await newer(), {})
        await talkTo(fresh)
        await stop(old)
        await talkTo(fresh)
        deepEqual(await newer(), {}, 'newer records before they were announced')
        await announce()
        await talkTo(fresh)
        const counts = await newer()
        for (const name of ['TurnCaptured', 'TurnScored'] as const)
          ok(counts[`${name}.v${later.versions[name]}`]! > 0, JSON.stringify(counts))
      },
    ))

  test('the older build starts again beside the later one, also after the announcement, and reads records that it does not write', (t) =>
    play(
      (line) => t.diagnostic(line),
      async ({ world, later, start, talkTo, newer, announce }) => {
        const fresh = await start(later.root)
        await talkTo(fresh)
        const old = await start(ROOT)
        await talkTo(fresh, old)
        deepEqual(await newer(), {}, 'newer records before they were announced')
        await announce()
        const before = await schemasOn(world)
        await talkTo(fresh, old)
        await talkTo(old)
        const after = await schemasOn(world)
        const [ours, theirs] = [later.versions['TurnCaptured']! - 1, later.versions['TurnCaptured']!].map(
          (version) => `TurnCaptured.v${version}`,
        )
        ok(after[theirs!]! > 0, JSON.stringify(after))
        ok(after[ours!]! > before[ours!]!, 'the older build writes what it knows')
      },
    ))
})
