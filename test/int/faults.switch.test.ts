/**
 * A log in use goes on with more partitions on other brokers: copied and followed while people talk to the gateway, and switched to
 * without stopping them for longer than a minute. Each process as in production; a forwarder stands for the load balancer.
 */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import type { EventLog } from '@instar/log'
import { openKafkaLog } from '@instar/log/kafka/index'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { ROOT } from '../../tools/tree.ts'
import { checkAll, checkAnswered } from '../chaos/world/checks.ts'
import { History } from '../chaos/world/history.ts'
import { newLedger, startPeople } from '../chaos/world/people.ts'
import { startService, type Kind, type Service } from '../chaos/world/service.ts'
import { startWorld } from '../chaos/world/world.ts'
import { all } from '../kit/event-log/harness.ts'
import { startKafka } from '../kit/stack/kafka.ts'
import { freePort } from '../kit/stack/ready.ts'

const TURNS = 64
const MOST_MS = 60_000

type Forwarder = { url: string; to(upstream: string): void; close(): Promise<void> }

/** Forwards connections to one address at a time; those to the one before are cut. */
const startForwarder = async (first: string): Promise<Forwarder> => {
  let port = Number(new URL(first).port)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect({ host: '127.0.0.1', port })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    to(upstream) {
      port = Number(new URL(upstream).port)
      cut()
    },
    async close() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A command of the CLI as a process; its lines are kept. */
const startCommand = (args: readonly string[], env: Record<string, string>) => {
  const child: ChildProcess = spawn(process.execPath, [join(ROOT, 'cli/src/main.ts'), ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  const waiting = new Set<() => void>()
  for (const stream of [child.stdout!, child.stderr!])
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      for (const look of waiting) look()
    })
  const ended = once(child, 'close').then(([code]) => code as number)
  return {
    lines,
    ended,
    signal: (name: NodeJS.Signals) => child.kill(name),
    async until(line: RegExp): Promise<void> {
      const found = Promise.withResolvers<void>()
      const look = (): void => {
        if (lines.some((one) => line.test(one))) found.resolve()
      }
      waiting.add(look)
      look()
      await Promise.race([
        found.promise,
        ended.then((code) =>
          Promise.reject(new Error(`ended with ${code} before ${String(line)}:\n${lines.join('\n')}`)),
        ),
      ])
      waiting.delete(look)
    },
  }
}

/** Ids of the records of each session, in order. */
const sessionsOf = async (log: EventLog): Promise<Map<string, string[]>> => {
  const sessions = new Map<string, string[]>()
  for (const { key, payload } of await all(log.read('turns')))
    sessions.set(key, [...(sessions.get(key) ?? []), Buffer.from(payload).toString('base64')])
  return sessions
}

test(
  `a log in use is copied to ${TURNS} partitions and switched to: no turn is lost or doubled, and learning goes on`,
  { timeout: 590_000 },
  async (t) => {
    const world = await startWorld({ services: { gateway: 1, scorer: 1 } })
    const started: Service[] = []
    const ended: (() => Promise<unknown>)[] = []
    try {
      const forwarder = await startForwarder(world.of('gateway')[0]!.url)
      ended.push(forwarder.close)
      const ledger = newLedger()
      const people = startPeople({
        gateways: [{ name: 'gateway', url: forwarder.url }],
        sessions: 3,
        random: seeded(1),
        ledger,
        // Some two turns a second, so that updates leave time for the rest.
        breathMs: 2500,
      })
      const old = new History()
      await old.follow(world.log)
      const other = await startKafka({ folder: join(world.folder, 'other-kafka') })
      const [from, to] = [world.env['INSTAR_LOG']!, `kafka://${other.brokers.join(',')}`]
      const env = { ...world.env, INSTAR_LOG: to }
      const setup = startCommand(['setup'], { ...env, INSTAR_PARTITIONS: `turns=${TURNS}` })
      assert.equal(await setup.ended, 0, setup.lines.join('\n'))
      await old.until('the first version of the old log', () => old.versions.length > 1)
      const ends = ['--from', from, '--to', to]
      const copy = startCommand(['log', 'copy', ...ends, '--partitions', `turns=${TURNS}`, '--follow', '--json'], env)
      ended.push(async () => copy.signal('SIGKILL'))
      await copy.until(/^follows +the copy is \d+ records behind/)

      // A gateway of the copy reads it meanwhile, so that it answers at once.
      const services = join(world.folder, 'services')
      const start = async (kind: Kind, name: string): Promise<Service> => {
        const service = startService({ kind, name, folder: services, port: await freePort(), env })
        started.push(service)
        return service
      }
      const gateway = await start('gateway', 'gateway-of-the-copy')
      await gateway.ready()
      await people.more(12)
      const behind = startCommand(['log', 'behind', ...ends, '--json'], env)
      await behind.ended
      const lacking = JSON.parse(behind.lines.at(-1)!) as { behind: number; topics: Record<string, { source: number }> }
      assert.ok(lacking.topics['turns']!.source > 16 && lacking.behind < 200, behind.lines.join('\n'))

      // The switch: stop what writes, let the copy end, start on the copy.
      const versions = old.versions.length
      const stoppedAt = Date.now()
      const statuses = await world.stopServices()
      const servicesStopped = Date.now()
      assert.deepEqual(
        Object.values(statuses).filter((status) => status !== 0),
        [],
        JSON.stringify(statuses),
      )
      copy.signal('SIGINT')
      assert.equal(await copy.ended, 0, copy.lines.join('\n'))
      const copyEnded = Date.now()
      const report = JSON.parse(copy.lines.at(-1)!) as { equal: boolean; sourceGrew: boolean; copied: number }
      assert.deepEqual([report.equal, report.sourceGrew], [true, false])
      forwarder.to(gateway.url)
      // With the data folders of before: their snapshots are of the old log.
      const rest = await Promise.all(
        (['scorer', 'trainer', 'publisher', 'projections'] as const).map((kind) => start(kind, `${kind}-1`)),
      )

      const log = await openKafkaLog({
        brokers: other.brokers,
        clientId: 'test',
        registry: world.registry.url,
        schemas: schemaTexts(),
      })
      ended.push(() => log.close())
      assert.equal(log.partitions('turns'), TURNS)
      const history = new History()
      await history.follow(log)
      await people.more(24)
      await history.until('a next version', () => history.versions.length > versions)
      await people.leave()
      await Promise.all(rest.map((service) => service.ready()))
      const [scorer, trainer, publisher] = rest.map((service) => service.said(20_000))
      for (const said of [scorer, trainer])
        assert.match(
          said!,
          /the snapshot is not used \(it is of a log with 8 partitions of turns, and this one has 64\)/,
        )
      // It reads no turns, and finds them by their times.
      assert.doesNotMatch(publisher!, /the snapshot is not used/)

      await history.caughtUp()
      checkAnswered(ledger, history)
      const [before, now] = await Promise.all([sessionsOf(world.log), sessionsOf(log)])
      for (const [session, records] of before) assert.deepEqual(now.get(session)!.slice(0, records.length), records)
      for (const [session, records] of now) assert.equal(new Set(records).size, records.length, session)
      await checkAll({ ...world, log }, history, ledger)
      for (const { name, crashes } of [...started, ...world.services]) assert.deepEqual(crashes, [], name)

      const after = startCommand(['log', 'behind', ...ends], env)
      assert.equal(await after.ended, 0, after.lines.join('\n'))

      const onOld = (turn: string): boolean => old.turns.has(turn)
      const lastOld = Math.max(...ledger.received.filter(({ turn }) => onOld(turn)).map(({ at }) => at))
      const firstNew = Math.min(...ledger.received.filter(({ turn }) => !onOld(turn)).map(({ at }) => at))
      t.diagnostic(
        JSON.stringify({
          answered: ledger.received.length,
          answeredOnTheOldLog: ledger.received.filter(({ turn }) => onOld(turn)).length,
          copied: report.copied,
          versionsBefore: versions - 1,
          versionsAfter: history.versions.length - 1,
          withoutAnswersMs: firstNew - lastOld,
          stoppingServicesMs: servicesStopped - stoppedAt,
          endOfTheCopyMs: copyEnded - servicesStopped,
          longestWaitMs: Math.max(...ledger.received.map(({ waitedMs }) => waitedMs)),
        }),
      )
      assert.ok(firstNew - lastOld < MOST_MS, `${firstNew - lastOld} ms`)
    } finally {
      await Promise.all(started.map((service) => service.end()))
      for (const end of ended.toReversed()) await end()
      await world.end()
    }
  },
)
