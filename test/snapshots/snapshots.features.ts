/** A fold that continues from a snapshot equals the fold from the start, wherever it was killed, on any log. */
import { encodeEvent, topicOf, type Event } from '@instar/events'
import { followEvents, openSnapshots, type EventLog, type Snapshot, type StateVersion } from '@instar/log'
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { seeded } from '../kit/random.ts'
import { randomHistory, type History } from '../kit/histories.ts'
import { SERVICES, type Fold, type Service } from './services.ts'
import { found, gatewayView, liveGateway } from './gateway.ts'

const V1: StateVersion = { number: 1, migrations: {} }

type OpenedLog = { log: EventLog; close(): Promise<void> }

/** `schedules`: the number of random histories. */
export const snapshotFeatures = (name: string, open: () => Promise<OpenedLog>, schedules: number): void => {
  const feature = (title: string, body: (log: EventLog, folder: string) => Promise<void>): void => {
    test(title, { timeout: 120_000 }, async () => {
      const opened = await open()
      const folder = mkdtempSync(join(tmpdir(), 'instar-snapshots-'))
      try {
        await body(opened.log, folder)
      } finally {
        await opened.close()
        rmSync(folder, { recursive: true })
      }
    })
  }

  describe(`snapshots on the ${name} log`, () => {
    for (let seed = 1; seed <= schedules; seed += 1) {
      feature(
        `history ${seed}: after kills and stops at any point each service has the state of a fold from the start`,
        async (log, folder) => {
          const random = seeded(seed)
          const history = randomHistory(random, 400)
          const services = SERVICES.map((service) => ({ service, lives: 0 }))
          const parts = [0, 1, 2, 3].map((i) => history.events.slice(i * 100, (i + 1) * 100))
          for (const [i, part] of parts.entries()) {
            await append(log, part)
            const last = i === parts.length - 1
            for (const one of services) {
              for (let lives = random.below(4); lives > 0; lives -= 1) {
                await live(log, one.service, folder, {
                  most: 1 + random.below(150),
                  clean: random.chance(0.4),
                  records: 1 + random.below(60),
                  cacheWeight: 1 + random.below(30),
                })
                one.lives += 1
              }
              if (last)
                assert.deepEqual(
                  await whole(log, one.service, folder, history),
                  await fromStart(log, one.service, history),
                  `${one.service.name}, ${one.lives} lives, seed ${seed}`,
                )
            }
          }
        },
      )
    }

    for (const limits of [
      { sessions: 1000, turns: 10_000 },
      { sessions: 8, turns: 60 },
    ]) {
      feature(
        `a gateway that keeps ${limits.sessions} sessions has the sessions of the log after kills and stops at any point`,
        async (log, folder) => {
          const random = seeded(limits.sessions)
          const history = randomHistory(random, 600)
          for (let i = 0; i < 6; i += 1) {
            await append(log, history.events.slice(i * 100, (i + 1) * 100))
            await liveGateway(
              log,
              folder,
              limits,
              { save: random.chance(0.4), records: 1 + random.below(40) },
              async () => undefined,
            )
          }
          const truth = await liveGateway(log, null, { sessions: 1000, turns: 10_000 }, {}, (gateway) =>
            gatewayView(gateway, history),
          )
          await liveGateway(log, folder, limits, {}, async (gateway) => {
            const { index } = gateway.snapshot
            assert.ok(index.recent.size <= limits.sessions && index.turns <= limits.turns)
            assert.equal(
              index.turns,
              [...index.recent.keys()].reduce(
                (sum, session) => sum + (index.fold.sessions.get(session)?.turns.length ?? 0),
                0,
              ),
            )
            assert.ok(found(gateway) <= index.turns)
            assert.deepEqual(await gatewayView(gateway, history), truth)
          })
        },
      )
    }

    feature('records before the snapshot are not read again', async (log, folder) => {
      const history = randomHistory(seeded(7), 300)
      await append(log, history.events)
      for (const service of SERVICES) {
        const first = await live(log, service, folder, { clean: true })
        const second = await live(log, service, folder, { clean: true })
        assert.ok(first > 100, `${first}`)
        assert.equal(second, 0, service.name)
      }
    })

    feature(
      'a deleted, damaged, empty or foreign file, or one of another build, causes a reading from the start',
      async (log, folder) => {
        const history = randomHistory(seeded(8), 300)
        await append(log, history.events)
        const service = SERVICES[1]!
        const truth = await fromStart(log, service, history)
        const file = join(folder, 'trainer.db')
        const read = await live(log, service, folder, { clean: true })
        const faults: Record<string, () => void> = {
          deleted: () => rmSync(file),
          emptied: () => truncateSync(file, 0),
          'cut in half': () => truncateSync(file, statSync(file).size >> 1),
          garbage: () => writeFileSync(file, Buffer.alloc(20_000, 'no database at all')),
          'without its beginning': () => writeFileSync(file, Buffer.alloc(100), { flag: 'r+' }),
        }
        for (const [what, harm] of Object.entries(faults)) {
          harm()
          assert.equal(await live(log, service, folder, { clean: true }), read, what)
          assert.deepEqual(await whole(log, service, folder, history), truth, what)
        }
        // Each build has a file of its own from then on.
        const another = { clean: true, version: { number: 2, migrations: {} } }
        assert.equal(await live(log, service, folder, another), read, 'another build')
        for (const [what, options] of Object.entries({ back: { clean: true }, again: another })) {
          assert.equal(await live(log, service, folder, options), 0, what)
        }
        assert.deepEqual(await whole(log, service, folder, history), truth)
      },
    )

    feature(
      'one changed byte of a row ends the service that reads it, and the next start reads the log; a gateway reads it at once',
      async (log, folder) => {
        const history = randomHistory(seeded(13), 300)
        await append(log, history.events)
        const service = SERVICES[0]!
        const read = await live(log, service, folder, { clean: true })
        spoil(join(folder, 'scorer.db'))
        await append(log, history.events.slice(0, 40))
        await assert.rejects(live(log, service, folder, { clean: true }), { code: 'snapshot_damaged' })
        assert.deepEqual(databases(folder), [])
        assert.equal(
          await live(log, service, folder, { clean: true }),
          read +
            history.events.slice(0, 40).filter((event) => service.topics.some((topic) => topic === topicOf(event)))
              .length,
        )
        assert.deepEqual(await whole(log, service, folder, history), await fromStart(log, service, history))

        const limits = { sessions: 1000, turns: 10_000 }
        const truth = await liveGateway(log, folder, limits, {}, (gateway) => gatewayView(gateway, history))
        spoil(join(folder, 'gateway.policy.turns.db'))
        assert.deepEqual(await liveGateway(log, folder, limits, {}, (gateway) => gatewayView(gateway, history)), truth)
      },
    )

    feature('a snapshot of another log is not used', async (log, folder) => {
      const [one, other] = [randomHistory(seeded(9), 200), randomHistory(seeded(10), 300)]
      const elsewhere = await open()
      try {
        await append(elsewhere.log, one.events)
        await append(log, other.events)
        for (const service of SERVICES) {
          await live(elsewhere.log, service, folder, { clean: true })
          const said: string[] = []
          await live(log, service, folder, { clean: true, logLine: (line) => said.push(line) })
          assert.match(said.join(), /is a different record on this log/)
          assert.deepEqual(await whole(log, service, folder, other), await fromStart(log, service, other))
        }
      } finally {
        await elsewhere.close()
      }
    })

    feature('two processes of a service in one folder have a file each', async (log, folder) => {
      const history = randomHistory(seeded(11), 200)
      await append(log, history.events)
      const service = SERVICES[0]!
      const store = openSnapshots(folder)
      const [one, other] = [store.of(service.name, V1), store.of(service.name, V1)]
      await one.open(log)
      await other.open(log)
      assert.deepEqual(databases(folder), ['scorer.2.db', 'scorer.db'])
      await one.close()
      await other.close()
      assert.equal((await live(log, service, folder, { clean: true })) > 0, true)
      assert.equal(await live(log, service, folder, { clean: true }), 0)
    })

    feature('without a writable folder the fold is in memory, and a log line says so', async (log, folder) => {
      const history = randomHistory(seeded(12), 200)
      await append(log, history.events)
      writeFileSync(join(folder, 'file'), '')
      const said: string[] = []
      const service = SERVICES[2]!
      assert.deepEqual(
        await whole(log, service, join(folder, 'file'), history, (line) => said.push(line)),
        await fromStart(log, service, history),
      )
      assert.match(said.join(), /no snapshots are kept/)
    })
  })
}

/** Changes one byte of every row, which SQLite cannot detect. */
const spoil = (file: string): void => {
  const db = new DatabaseSync(file)
  db.exec("update entries set value = cast(substr(value, 1, length(value) - 1) || x'ff' as blob)")
  db.close()
}

const databases = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.db'))
    .sort()

const append = async (log: EventLog, events: readonly Event[]): Promise<void> => {
  await log.append(
    events
      .map((event) => encodeEvent(event))
      .map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
  )
}

/** Without the classes of the decoder, which a value read back lacks. */
const plain = (view: unknown): unknown => structuredClone(view)

type Life = {
  most?: number
  clean?: boolean
  records?: number
  cacheWeight?: number
  version?: StateVersion
  logLine?: (line: string) => void
}

const start = (
  service: Service,
  folder: string,
  { records = 50, cacheWeight = 20, version = V1, logLine = () => undefined }: Life,
): { fold: Fold; snapshot: Snapshot } => {
  const snapshot = openSnapshots(folder, { records, cacheWeight, ms: Infinity, logLine }).of(service.name, version)
  return { fold: service.stored(snapshot), snapshot }
}

/** Reads at most this many records from the last position, then stops or is killed. Returns how many it read. */
const live = async (log: EventLog, service: Service, folder: string, life: Life): Promise<number> => {
  const { most = Infinity, clean = false } = life
  const { fold, snapshot } = start(service, folder, life)
  let read = 0
  const killed = new Error('killed')
  const follower = await followEvents(log, {
    name: service.name,
    topics: service.topics,
    from: await snapshot.open(log),
    onEvent(logged) {
      if (read === most) throw killed
      read += 1
      fold.evolve(logged)
      return snapshot.after(logged)
    },
  })
  await Promise.race([follower.caughtUp(), follower.done]).catch((error: unknown) => {
    if (error !== killed) throw error
  })
  await follower.stop()
  await snapshot.close({ save: clean })
  return read
}

export const whole = async (
  log: EventLog,
  service: Service,
  folder: string,
  history: History,
  logLine?: (line: string) => void,
): Promise<unknown> => {
  const { fold, snapshot } = start(service, folder, logLine ? { logLine } : {})
  const follower = await followEvents(log, {
    name: service.name,
    topics: service.topics,
    from: await snapshot.open(log),
    onEvent(logged) {
      fold.evolve(logged)
      return snapshot.after(logged)
    },
  })
  await follower.caughtUp()
  await follower.stop()
  const view = plain(fold.view(history))
  await snapshot.close()
  return view
}

export const fromStart = async (log: EventLog, service: Service, history: History): Promise<unknown> => {
  const fold = service.inMemory()
  const follower = await followEvents(log, {
    name: service.name,
    topics: service.topics,
    onEvent: (logged) => fold.evolve(logged),
  })
  await follower.caughtUp()
  await follower.stop()
  return plain(fold.view(history))
}
