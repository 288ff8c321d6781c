/**
 * An upgrade of the compose stack during conversations: containers of this build and of a later one, with newer
 * versions of some records, on one stack, in both orders.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { compose } from './docker.ts'
import { nothingLost } from './lost.ts'
import { watchProbes } from './probes.ts'
import { inspect, remains, SERVICES } from './stack.ts'
import { clientOf, ledger, talk, type Ledger, type Talk } from './talk.ts'
import { laterServices, type Later } from './two-builds.ts'

const UP_MS = 480_000
const NAMES = ['TurnCaptured', 'SessionClosed', 'TurnScored', 'BatchSealed', 'VersionPublished'] as const
/** Answers before the next step. */
const ANSWERS = 24

/** Records on the log by schema; runs in a container. */
const COUNT = `
const { brokersOf, openKafkaLog } = await import('@instar/log/kafka/index')
const { schemaTexts } = await import('@instar/events')
const { INSTAR_LOG, INSTAR_REGISTRY: registry } = process.env
const log = await openKafkaLog({ brokers: brokersOf(INSTAR_LOG), clientId: 'count', registry, schemas: schemaTexts() })
const counts = {}
for (const topic of ['turns', 'scores', 'updates', 'weights'])
  for await (const records of log.read(topic)) for (const { schema } of records) counts[schema] = (counts[schema] ?? 0) + 1
console.log(JSON.stringify(counts))
await log.close()`

describe('two builds in one stack', { timeout: 1_140_000 }, () => {
  let later: Later
  let left: readonly string[] = []
  before(async () => {
    left = await remains()
    later = await laterServices(NAMES)
  })
  after(() => later.remove())

  type Scene = {
    /** Starts services and their dependencies; probes are recorded once they are healthy. */
    up(services: readonly string[]): Promise<void>
    /** Sends SIGTERM to each; they must exit with code 0. */
    stop(services: readonly string[]): Promise<void>
    /** Moves the conversations to these gateways without a pause; resolves after `ANSWERS` further answers. */
    talkTo(...gateways: readonly string[]): Promise<void>
    schemas(): Promise<Record<string, number>>
    /** Of these, the versions that only the later build has. */
    newer(): Promise<Record<string, number>>
    /** `setup --upgraded` of the later build. */
    announce(): Promise<void>
  }

  const play = async (t: TestContext, work: (scene: Scene) => Promise<void>): Promise<void> => {
    if (left.length > 0) return t.skip('what the file before left is kept until its logs have been shown')
    const { extra } = later
    const book: Ledger = ledger()
    const probes = watchProbes()
    const faults: string[] = []
    let talking: Talk | null = null
    const leave = async (talk: Talk | null): Promise<void> => {
      await talk?.stop()
      faults.push(...(talk?.faults() ?? []))
    }
    const found = async (services: readonly string[]) =>
      inspect((await compose(['ps', '-a', '-q', ...services], { extra })).split('\n').filter(Boolean))
    const schemas: Scene['schemas'] = async () =>
      JSON.parse(
        await compose(['run', '--rm', '-T', '--no-deps', '--entrypoint', 'node', 'instar', '-e', COUNT]),
      ) as Record<string, number>
    const scene: Scene = {
      schemas,
      async up(services) {
        await compose(['up', '-d', '--wait', ...services], { extra, limit: UP_MS })
        const started = await found(services)
        deepEqual(
          started.map(({ healthy }) => healthy),
          services.map(() => true),
        )
        probes.watch(started.map(({ id }) => id))
      },
      async stop(services) {
        probes.leave((await found(services)).map(({ id }) => id))
        await compose(['stop', ...services], { extra })
        deepEqual(
          (await found(services)).map(({ exit, running, restarts }) => ({ exit, running, restarts })),
          services.map(() => ({ exit: 0, running: false, restarts: 0 })),
        )
      },
      async talkTo(...gateways) {
        const ports = (await found(gateways)).map(({ port }) => port!)
        const before = talking
        talking = talk(
          ports.map((port) => clientOf(port, book)),
          book,
          2,
        )
        await leave(before)
        await talking.more(ANSWERS)
      },
      async newer() {
        const counts = await schemas()
        const names = NAMES.map((name) => `${name}.v${later.versions[name]}`).filter((name) => counts[name])
        return Object.fromEntries(names.map((name) => [name, counts[name]!]))
      },
      async announce() {
        const said = await compose(
          ['run', '--rm', '-T', '--no-deps', 'setup-later', 'cli/src/main.ts', 'setup', '--upgraded', '--json'],
          { extra, limit: 240_000 },
        )
        deepEqual((JSON.parse(said.trimEnd().split('\n').at(-1)!) as { upgraded: object }).upgraded, later.versions)
      },
    }
    try {
      await work(scene)
      await leave(talking)
      talking = null
      deepEqual(faults, [], 'a request failed')
      await nothingLost(book)
      const { failed, late, seen } = await probes.stop()
      t.diagnostic(
        `${book.turns.size} turns, ${seen} health probes (${late} timed out), ${JSON.stringify(await schemas())}`,
      )
      deepEqual(failed, [], 'a container was not ready')
      ok(seen > 20, `${seen} health probes`)
      const all = await found([...SERVICES, ...later.services])
      equal(all.length, 2 * SERVICES.length)
      deepEqual(
        all.filter(({ restarts }) => restarts > 0).map(({ name }) => name),
        [],
        'restarted by Docker',
      )
      await compose(['down', '-v'], { extra, limit: 240_000 })
      deepEqual(await remains(), [])
    } catch (error) {
      // Kept data would be found by the next test; only its logs are needed.
      left = await remains()
      throw error
    } finally {
      await leave(talking)
      await probes.stop()
    }
  }

  test('a later build starts beside the older one, takes over and is announced without a failed request or a lost record', (t) =>
    play(t, async ({ up, stop, talkTo, newer, announce }) => {
      await up(SERVICES)
      await talkTo('gateway')
      await up(later.services)
      await talkTo('gateway', 'gateway-later')
      await talkTo('gateway-later')
      await stop(SERVICES)
      await talkTo('gateway-later')
      deepEqual(await newer(), {}, 'newer records before they were announced')
      await announce()
      await talkTo('gateway-later')
      const counts = await newer()
      ok(counts[`TurnCaptured.v${later.versions['TurnCaptured']}`]! > 0, JSON.stringify(counts))
    }))

  test('the older build starts again beside the later one, also after the announcement, and reads records that it does not write', (t) =>
    play(t, async ({ up, talkTo, schemas, newer, announce }) => {
      await up(later.services)
      await talkTo('gateway-later')
      await up(SERVICES)
      await talkTo('gateway', 'gateway-later')
      deepEqual(await newer(), {}, 'newer records before they were announced')
      await announce()
      const before = await schemas()
      await talkTo('gateway', 'gateway-later')
      await talkTo('gateway')
      const [ours, theirs] = [later.versions['TurnCaptured']! - 1, later.versions['TurnCaptured']!].map(
        (version) => `TurnCaptured.v${version}`,
      )
      const counts = await schemas()
      ok(counts[theirs!]! > 0, JSON.stringify(counts))
      ok(counts[ours!]! > before[ours!]!, 'the older build writes what it knows')
    }))
})
