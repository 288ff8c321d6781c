/** Services on Kafka, each on its own log, as separate processes would be. */
import { decodeRecord, type MemoryScores, type TurnCaptured } from '@instar/events'
import { createScorer, scorerConfig, type Scorer } from '@instar/scorer'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { range } from '../kit/event-log/harness.ts'
import { Publisher, startRig, turnsOf, USER, type Rig } from '../kit/gateway.ts'
import { kafkaLogs } from '../kit/kafka-logs.ts'

const SESSIONS = 12
const TURNS = 4

test(
  'with two gateways and two scorers each answered turn is on the log once, scores agree, and a late gateway serves the head',
  { timeout: 120_000 },
  async () => {
    const { open, close } = await kafkaLogs('v')
    let answers = 0
    const script = (): string => `This is answer number ${++answers}.`
    const rigs: Rig[] = []
    const startGateway = async (clientId: string): Promise<Rig> => {
      const rig = await startRig({
        log: await open(clientId),
        script,
        settings: { tailWaitMs: 10_000, appendPatienceMs: 20_000 },
      })
      rigs.push(rig)
      return rig
    }
    const scorers: Scorer[] = []
    const watcher = await open('watcher')
    try {
      const publisher = new Publisher(await open('publisher'))
      await publisher.start()
      const gateways = [await startGateway('gateway-1'), await startGateway('gateway-2')]
      for (const name of ['scorer-1', 'scorer-2']) {
        const scorer = createScorer(
          {
            log: await open(name),
            now: Date.now,
            onFatal: (error) => {
              throw error
            },
          },
          scorerConfig.parse({}),
        )
        scorers.push(scorer)
        await scorer.start()
      }

      const answered: string[] = []
      await Promise.all(
        range(SESSIONS).map(async (session) => {
          const messages: { role: 'user' | 'assistant'; content: string }[] = []
          for (const turn of range(TURNS)) {
            messages.push(
              USER(
                turn === 0
                  ? `Conversation ${session}: what is ${session} plus ${session}?`
                  : turn % 2
                    ? 'Thank you, that helps!'
                    : `And plus ${turn}?`,
              ),
            )
            const response = await gateways[(session + turn) % 2]!.fetch('/v1/chat/completions', {
              json: { model: 'policy', messages },
            })
            assert.equal(response.status, 200)
            const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
            messages.push({ role: 'assistant', content: choices[0]!.message.content })
            answered.push(response.headers.get('x-instar-turn-id')!)
          }
        }),
      )

      const turns = await turnsOf(watcher)
      assert.deepEqual(turns.map(({ turn }) => turn).toSorted(), answered.toSorted())
      const sessions = Map.groupBy(turns as TurnCaptured[], ({ session }) => session)
      assert.deepEqual(
        [...sessions.values()].map((of) => of.length),
        range(SESSIONS).map(() => TURNS),
      )

      const followed = sessions.size * (TURNS - 1)
      const found = new Set<string>()
      const every = Promise.withResolvers<void>()
      const scored = await watcher.subscribe({
        topics: ['scores'],
        group: 'watcher',
        from: 'start',
        handle(records) {
          for (const record of records) {
            const { event } = decodeRecord(record)
            if (event.type === 'TurnScored' || event.type === 'TurnSkipped') found.add(event.turn)
          }
          if (found.size === followed) every.resolve()
        },
      })
      await every.promise
      await scored.stop()

      await publisher.publish(0)
      const head = await publisher.publish(1)
      const late = await startGateway('gateway-3')
      const response = await late.fetch('/v1/chat/completions', {
        json: { model: 'policy', messages: [USER('Who are you now?')] },
      })
      assert.equal(response.headers.get('x-instar-version'), '2')
      await response.text()
      assert.ok(late.engine.loaded.has(head))

      // A scorer reads the scores of the other up to 250 ms late.
      await Promise.all(scorers.map((scorer) => scorer.settled()))
      for (const scorer of scorers) await scorer.stop()
      const [one, other] = scorers.map(
        ({ state }) =>
          new Map(
            [...(state.scores.get('policy') as MemoryScores).turns].map(([turn, score]) => [
              turn,
              JSON.stringify(score),
            ]),
          ),
      )
      assert.equal(one!.size, followed)
      assert.equal(other!.size, followed)
      for (const [turn, score] of one!) assert.equal(other!.get(turn), score)
    } finally {
      for (const scorer of scorers) await scorer.stop()
      for (const rig of rigs) await rig.stop()
      await close()
    }
  },
)
