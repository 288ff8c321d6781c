/**
 * Kafka is unreachable for half a minute: open streams end, new requests wait with comments and are then served, or are
 * refused with Retry-After beyond the limit. No answered turn is lost.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { seeded } from '../../models/tiny/recipe/random.ts'
import type { Messages } from '../kit/people.ts'
import { checkAll, checkNoCrash } from './world/checks.ts'
import { History } from './world/history.ts'
import { newLedger, startPeople } from './world/people.ts'
import { streamed, type Streamed } from './world/streams.ts'
import { startWorld, type World } from './world/world.ts'

const SHORT = process.env['INSTAR_SHORT'] === '1'
const AWAY_MS = 30_000
const STREAMS = 24
/** The defaults of the gateway: answers that wait for the log, and requests that wait for the model. */
const HELD = 512
const WAITING = 256

describe('Kafka is unreachable for 30 s', { timeout: 600_000 }, () => {
  const random = seeded(Number(process.env['INSTAR_SEED'] ?? 1))
  const ledger = newLedger()
  const history = new History()
  let world: World
  let asked = 0
  before(async () => {
    world = await startWorld({ services: { scorer: 1 } })
    await history.follow(world.log)
  })
  after(() => world?.end())

  const fresh = (): Messages => [
    { role: 'user', content: `What do you make of case ${(asked += 1)}? Tell me at length.` },
  ]
  const answered = ({ turn, session, version, text, endMs }: Streamed, follows: string | null = null): void => {
    ledger.received.push({
      turn,
      session,
      version,
      text,
      follows,
      gateway: '',
      waitedMs: Math.round(endMs),
      at: Date.now(),
      failures: 0,
    })
  }
  const endedWell = ({ status, code, finish, done, text }: Streamed): void =>
    deepEqual(
      { status, code, finish: finish !== null, done, text: text.length > 0 },
      { status: 200, code: null, finish: true, done: true, text: true },
    )

  const ways: [string, () => Promise<void>, () => Promise<void>][] = [
    [
      'stopped and let go on',
      async () => world.kafka.nodes[0]!.signal('SIGSTOP'),
      async () => world.kafka.nodes[0]!.signal('SIGCONT'),
    ],
    ['killed and started again', () => world.kafka.nodes[0]!.kill(), () => world.kafka.nodes[0]!.start()],
  ]
  for (const [way, leave, comeBack] of SHORT ? ways.slice(1) : ways) {
    test(`${way}: open streams end, requests wait and are answered, and conversations continue`, async (t) => {
      const urls = world.of('gateway').map(({ url }) => url)
      const before = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const messages = fresh()
          const answer = await streamed(urls[0]!, messages)
          answered(answer)
          return { messages, answer }
        }),
      )
      const piece = Promise.withResolvers<void>()
      let over = 0
      const inFlight = Array.from({ length: STREAMS }, (_, i) =>
        streamed(urls[i % 2]!, fresh(), () => piece.resolve(), 64).finally(() => {
          over += 1
        }),
      )
      await piece.promise
      await leave()
      const left = performance.now()
      const flying = STREAMS - over
      ok(flying > 0, 'no stream was in flight')
      const held = Array.from({ length: STREAMS }, (_, i) => streamed(urls[i % 2]!, fresh()))
      // The answer came from one gateway; the next request goes to the other.
      const goingOn = before.map(async ({ messages, answer }) => ({
        follows: answer,
        next: await streamed(urls[1]!, [
          ...messages,
          { role: 'assistant', content: answer.text },
          { role: 'user', content: 'Thanks, that is just how I like it.' },
        ]),
      }))
      let back = false
      const early = Promise.race([...held, ...goingOn]).then(() =>
        ok(back, 'an answer was given in full while Kafka was away'),
      )
      await Promise.race([pause(AWAY_MS), early])
      back = true
      await comeBack()
      const returned = performance.now()
      await early
      const all = [...(await Promise.all(inFlight)), ...(await Promise.all(held))]
      const continued = await Promise.all(goingOn)
      const served = performance.now()
      for (const one of all) {
        endedWell(one)
        answered(one)
      }
      for (const { follows, next } of continued) {
        endedWell(next)
        equal(next.session, follows.session)
        answered(next, follows.turn)
      }
      for (const { comments } of await Promise.all(held)) ok(comments >= 2, `a held stream had ${comments} comments`)
      await checkAll(world, history, ledger)
      t.diagnostic(
        `${flying} streams were in flight, ${STREAMS + continued.length} requests came while Kafka was away for ${((returned - left) / 1000).toFixed(1)} s; all were served ${((served - returned) / 1000).toFixed(1)} s after it was back; the longest wait of a client ${Math.max(...all.map(({ endMs }) => Math.round(endMs)))} ms`,
      )
    })
  }

  test(`with more than ${HELD} waiting answers, new requests are refused with Retry-After and answered later`, async (t) => {
    const [gateway] = world.of('gateway')
    const refusals = new Map<string, number>()
    const enough = Promise.withResolvers<void>()
    world.kafka.nodes[0]!.signal('SIGSTOP')
    const stopped = performance.now()
    const everybody = Promise.all(
      Array.from({ length: HELD + WAITING + 64 }, async () => {
        for (const messages = fresh(); ;) {
          const answer = await streamed(gateway!.url, messages, undefined, 6)
          if (answer.status === 200) return answer
          equal(answer.status, answer.code === 'overloaded' ? 429 : 503)
          ok(Number(answer.retryAfter) >= 1, 'a refusal without Retry-After')
          refusals.set(answer.code!, (refusals.get(answer.code!) ?? 0) + 1)
          if ((refusals.get('log_full') ?? 0) >= 20) enough.resolve()
          await pause(1000 * Number(answer.retryAfter))
        }
      }),
    )
    const late = setTimeout(
      () => enough.reject(new Error(`too few were refused: ${JSON.stringify([...refusals])}`)),
      120_000,
    )
    await Promise.race([enough.promise, everybody]).finally(() => clearTimeout(late))
    world.kafka.nodes[0]!.signal('SIGCONT')
    const returned = performance.now()
    const answers = await everybody
    for (const one of answers) {
      endedWell(one)
      answered(one)
    }
    t.diagnostic(
      `${answers.length} requests; refused ${JSON.stringify(Object.fromEntries(refusals))} times; Kafka was away for ${((returned - stopped) / 1000).toFixed(1)} s, all were served ${((performance.now() - returned) / 1000).toFixed(1)} s later`,
    )
    const people = startPeople({ gateways: world.of('gateway'), sessions: 6, random, ledger })
    await people.more(24)
    await people.leave()
    await checkAll(world, history, ledger)
    checkNoCrash(world)
  })
})
